// What a worker is doing right now, for the control thread that reports it.
//
// The compute thread writes, the control thread reads; both may at any time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/time.h"

namespace kerf::runtime {

struct ActivityReport {
  std::string doing;   // "step 12: 1F3", "reading data", "" when idle
  std::string device;  // the first of what was enqueued whole that the device has yet to do, or ""
  std::string awaits;  // "fc1.output of micro-batch 3", "" when it awaits nothing
  int32_t awaited = -1;  // the worker it awaits that from, -1: none
  int64_t since_ns = 0;  // how long so
  int64_t progress = 0;  // grows with everything done, enqueued work when the device has done it

  template <class Archive>
  void serialize(Archive& archive) {
    archive(doing, device, awaits, awaited, since_ns, progress);
  }
};

class Activity {
 public:
  // Begins something; it awaits nothing yet. "" for idle.
  void doing(std::string_view what);
  void awaits(std::string_view what, int from);
  void awaits_nothing();
  void progress() { progress_.fetch_add(1, std::memory_order_relaxed); }
  // `what` went to a device that writes to `done` how much of all that it was given it has done:
  // this is done from `number` on, which ascends.
  void enqueued(std::string_view what, int64_t number, const std::shared_ptr<const int64_t>& done);
  ActivityReport report() const;

 private:
  struct Enqueued {
    std::string what;
    int64_t number = 0;
  };
  int64_t done_by_device() const;
  void forget_done();

  mutable std::mutex mutex_;  // guards all but progress_
  ActivityReport now_;
  // In order, from the first that is open; those before keep their memory for others to come.
  std::vector<Enqueued> enqueued_;
  size_t first_ = 0;
  size_t end_ = 0;
  std::shared_ptr<const int64_t> done_;  // null: nothing was ever enqueued
  Clock::time_point since_ = Clock::now();
  std::atomic<int64_t> progress_{0};
};

}  // namespace kerf::runtime
