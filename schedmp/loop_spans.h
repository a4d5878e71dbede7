// What the loop does beside a program's rounds, as spans of a trace: restarts, commits and
// checkpoints. Belongs to the loop's thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/trace.h"

namespace kerf::schedmp {

class LoopSpans {
 public:
  // Beyond kMost they are counted, not kept.
  void add(runtime::Span span) {
    if (spans_.size() == kMost)
      ++lost_;
    else
      spans_.push_back(std::move(span));
  }
  std::vector<runtime::Span> take() { return std::exchange(spans_, {}); }
  int64_t lost() const { return lost_; }

 private:
  static constexpr size_t kMost = 100'000;

  std::vector<runtime::Span> spans_;
  int64_t lost_ = 0;
};

}  // namespace kerf::schedmp
