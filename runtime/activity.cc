#include "runtime/activity.h"

#include <algorithm>

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

// A device writes it.
int64_t Activity::done_by_device() const {
  return done_ ? std::atomic_ref(const_cast<int64_t&>(*done_)).load() : 0;
}

void Activity::enqueued(std::string_view what, int64_t number,
                        const std::shared_ptr<const int64_t>& done) {
  const std::lock_guard lock(mutex_);
  if (done_ != done) enqueued_.clear();
  done_ = done;
  while (!enqueued_.empty() && enqueued_.front().number <= done_by_device()) enqueued_.pop_front();
  enqueued_.push_back({std::string(what), number});
}

ActivityReport Activity::report() const {
  const std::lock_guard lock(mutex_);
  ActivityReport report = now_;
  report.since_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - since_).count();
  const int64_t done = done_by_device();
  const auto is_open = [done](const Enqueued& each) { return each.number > done; };
  if (const auto first = std::ranges::find_if(enqueued_, is_open); first != enqueued_.end())
    report.device = first->what;
  report.progress = progress_.load(std::memory_order_relaxed) + done;
  return report;
}

}  // namespace kerf::runtime
