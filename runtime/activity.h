// What a worker is doing right now, for the control thread that reports it.
//
// The compute thread writes, the control thread reads; both may at any time.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "runtime/time.h"

namespace kerf::runtime {

struct ActivityReport {
  std::string doing;     // "step 12: 1F3", "reading data", "" when idle
  std::string awaits;    // "fc1.output of micro-batch 3", "" when it awaits nothing
  int32_t awaited = -1;  // the worker it awaits that from, -1: none
  int64_t since_ns = 0;  // how long so
  int64_t progress = 0;  // grows with everything done

  template <class Archive>
  void serialize(Archive& archive) {
    archive(doing, awaits, awaited, since_ns, progress);
  }
};

class Activity {
 public:
  // Begins something; it awaits nothing yet. "" for idle.
  void doing(std::string_view what);
  void awaits(std::string_view what, int from);
  void awaits_nothing();
  void progress() { progress_.fetch_add(1, std::memory_order_relaxed); }
  ActivityReport report() const;

 private:
  mutable std::mutex mutex_;
  ActivityReport now_;
  Clock::time_point since_ = Clock::now();
  std::atomic<int64_t> progress_{0};
};

}  // namespace kerf::runtime
