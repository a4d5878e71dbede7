#include "runtime/zmq/refusal_log.h"

#include "runtime/format.h"

namespace kerf::runtime {
namespace {

constexpr std::chrono::seconds kTellEvery{1};

const char* text_of(Refusal reason) {
  switch (reason) {
    case Refusal::kNoKey:
      return "it has no key; start that worker with --keys DIR";
    case Refusal::kOtherScheduler:
      return "it was given another scheduler's key; copy scheduler.public of this run's keys to it";
    case Refusal::kUnknownKey:
      return "its key is not listed; copy worker.secret of this run's keys to it, or add its key "
             "to "
             "workers.allowed and begin again";
    case Refusal::kLeft:
      return "it left before it showed a key; a worker needs --keys DIR";
    case Refusal::kNoWorker:
      return "it does not speak this protocol, and is no worker";
    case Refusal::kNoWorkerOfThisRun:
      return "it is of no worker of this run, but of one that was refused or of another run";
  }
  return "unknown";
}

}  // namespace

void RefusalLog::add(Refusal reason, const std::string& from) {
  Told& told = told_[reason];
  ++told.since;
  const auto now = Clock::now();
  if (!notice_ || now < told.at + kTellEvery) return;
  const std::string what = reason == Refusal::kNoWorkerOfThisRun ? "message" : "connection";
  const std::string many = told.since == 1 ? kerf::format("refused a {}", what)
                                           : kerf::format("refused {} {}s", told.since, what);
  const std::string where = told.since == 1 ? "from" : "the last from";
  notice_(kerf::format("{}{}: {}", many, from.empty() ? "" : kerf::format(" ({} {})", where, from),
                       text_of(reason)));
  told = {now, 0};
}

}  // namespace kerf::runtime
