// Tells why connections were refused, each reason at most once a second and with how often it came
// meanwhile: whoever is refused tries again ten times a second, and there may be many of them.
//
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "runtime/time.h"

namespace kerf::runtime {

enum class Refusal { kNoKey, kOtherScheduler, kUnknownKey, kLeft, kNoWorker, kNoWorkerOfThisRun };

class RefusalLog {
 public:
  using Notice = std::function<void(const std::string&)>;
  explicit RefusalLog(Notice notice) : notice_(std::move(notice)) {}
  // `from`: the host, where that is known.
  void add(Refusal reason, const std::string& from);

 private:
  struct Told {
    Clock::time_point at{};
    int64_t since = 0;  // refusals that nobody was told of
  };
  const Notice notice_;
  std::map<Refusal, Told> told_;
};

}  // namespace kerf::runtime
