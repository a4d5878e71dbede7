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

RefusalLog::RefusalLog(Notice notice) : notice_(std::move(notice)) {
  if (notice_) thread_ = std::jthread([this](const std::stop_token& stop) { tell_all(stop); });
}

void RefusalLog::add(Refusal reason, const std::string& from) {
  {
    const std::lock_guard lock(mutex_);
    Untold& untold = untold_[reason];
    ++untold.count;
    untold.from = from;
  }
  news_.notify_one();
}

void RefusalLog::tell_all(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (true) {
    const Due next = next_due();
    if (next == untold_.end()) {
      if (stop.stop_requested()) return;
      news_.wait(lock, stop, [this] { return next_due() != untold_.end(); });
      continue;
    }
    if (const auto due = next->second.due; Clock::now() < due && !stop.stop_requested()) {
      news_.wait_until(lock, stop, due, [&] { return next_due()->second.due < due; });
      continue;
    }
    const Untold untold = next->second;
    next->second = {.count = 0, .from = {}, .due = Clock::now() + kTellEvery};
    lock.unlock();
    tell(next->first, untold);
    lock.lock();
  }
}

// The one that is due first; none: there is nothing to tell.
RefusalLog::Due RefusalLog::next_due() {
  Due next = untold_.end();
  for (Due each = untold_.begin(); each != untold_.end(); ++each)
    if (each->second.count > 0 && (next == untold_.end() || each->second.due < next->second.due))
      next = each;
  return next;
}

void RefusalLog::tell(Refusal reason, const Untold& untold) const {
  const std::string what = reason == Refusal::kNoWorkerOfThisRun ? "message" : "connection";
  const std::string many = untold.count == 1 ? kerf::format("refused a {}", what)
                                             : kerf::format("refused {} {}s", untold.count, what);
  const std::string where = untold.count == 1 ? "from" : "the last from";
  try {
    notice_(kerf::format("{}{}: {}", many,
                         untold.from.empty() ? "" : kerf::format(" ({} {})", where, untold.from),
                         text_of(reason)));
  } catch (const std::exception&) {
    // Its reader is gone, or the disk is full.
  }
}

}  // namespace kerf::runtime
