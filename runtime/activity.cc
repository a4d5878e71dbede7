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

// A device writes it.
int64_t Activity::done_by_device() const {
  return done_ ? std::atomic_ref(const_cast<int64_t&>(*done_)).load() : 0;
}

// A steady step allocates nothing: entries are used again when all are done.
void Activity::forget_done() {
  while (first_ < end_ && enqueued_[first_].number <= done_by_device()) ++first_;
  if (first_ == end_) first_ = end_ = 0;
}

void Activity::enqueued(std::string_view what, int64_t number,
                        const std::shared_ptr<const int64_t>& done) {
  const std::lock_guard lock(mutex_);
  if (done_ != done) first_ = end_ = 0;
  done_ = done;
  forget_done();
  if (end_ == enqueued_.size()) enqueued_.emplace_back();
  enqueued_[end_].what.assign(what);
  enqueued_[end_].number = number;
  ++end_;
}

ActivityReport Activity::report() const {
  const std::lock_guard lock(mutex_);
  ActivityReport report = now_;
  report.since_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - since_).count();
  const int64_t done = done_by_device();
  for (size_t i = first_; i < end_; ++i) {
    if (enqueued_[i].number <= done) continue;
    report.device = enqueued_[i].what;
    break;
  }
  report.progress = progress_.load(std::memory_order_relaxed) + done;
  return report;
}

}  // namespace kerf::runtime
