// A trace of a program: when its scheduler's half scheduled and folded in, and when each worker did
// its tasks. Spans are named for their round: "schedule 12", "update 12", "aggregate 12". Belongs
// to the loop's thread.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/crew.h"
#include "runtime/trace.h"

namespace kerf::schedmp {

class ProgramTrace {
 public:
  // Of what lies between its construction and its end; without a trace, of nothing.
  class Timer {
   public:
    Timer(ProgramTrace* trace, const char* what, int64_t round);
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;
    ~Timer();

   private:
    ProgramTrace* trace_;
    runtime::Span span_;
  };

  // By that worker's clock. Beyond kMostSpans they are counted, not kept.
  void add(int worker, std::vector<runtime::Span> spans);
  int64_t lost() const { return lost_; }

  // On the scheduler's clock, the scheduler first.
  std::vector<runtime::WorkerTrace> take(const std::vector<runtime::WorkerInfo>& crew);

 private:
  static constexpr int64_t kMostSpans = 2'000'000;
  bool has_room();

  int64_t kept_ = 0, lost_ = 0;
  std::vector<runtime::Span> own_;
  std::vector<std::vector<runtime::Span>> workers_;  // by worker
};

}  // namespace kerf::schedmp
