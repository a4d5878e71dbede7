// What wakes an inproc endpoint out of wait(): whoever has something new for it rings.
//
// Shared by the endpoint and its pipes. Thread-safe.
#pragma once

#include <condition_variable>
#include <mutex>

#include "runtime/standstill.h"

namespace kerf::runtime {

class InprocBell {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    rung_ = true;
    rings_.notify_all();
  }
  // Until it rings, or the deadline passed; at once where it rang since the last call.
  void wait(Deadline deadline) {
    std::unique_lock lock(mutex_);
    wait_running(rings_, lock, deadline, [this] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;  // guards rung_
  std::condition_variable rings_;
  bool rung_ = false;
};

}  // namespace kerf::runtime
