// Counts the bytes that a device has handed out, and the most there were. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>

#include "runtime/device.h"

namespace kerf::runtime {

class MemoryMeter {
 public:
  void add(size_t bytes) {
    const size_t current = current_.fetch_add(bytes) + bytes;
    size_t peak = peak_.load();
    while (peak < current && !peak_.compare_exchange_weak(peak, current)) continue;
  }
  void subtract(size_t bytes) noexcept { current_.fetch_sub(bytes); }
  void reset_peak() { peak_.store(current_.load()); }

  size_t current() const { return current_.load(); }
  MemoryStats stats(size_t capacity) const { return {current_.load(), peak_.load(), capacity}; }

 private:
  std::atomic<size_t> current_{0};
  std::atomic<size_t> peak_{0};
};

}  // namespace kerf::runtime
