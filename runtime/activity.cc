#include "runtime/activity.h"

namespace kerf::runtime {

void Activity::doing(std::string_view what) {
  const std::lock_guard lock(mutex_);
  now_.doing = what;
  now_.awaits.clear();
  now_.awaited = -1;
  since_ = Clock::now();
}

void Activity::awaits(std::string_view what, int from) {
  const std::lock_guard lock(mutex_);
  now_.awaits = what;
  now_.awaited = from;
  since_ = Clock::now();
}

void Activity::awaits_nothing() {
  const std::lock_guard lock(mutex_);
  now_.awaits.clear();
  now_.awaited = -1;
  since_ = Clock::now();
}

ActivityReport Activity::report() const {
  const std::lock_guard lock(mutex_);
  ActivityReport report = now_;
  report.since_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - since_).count();
  report.progress = progress_.load(std::memory_order_relaxed);
  return report;
}

}  // namespace kerf::runtime
