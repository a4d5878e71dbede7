// Counts the bytes that a device has handed out, and the most there were; keeps them under a cap.
//
//   const size_t taken = meter.take(bytes, "cpu");   // throws where that is too much
//   ... allocate; if that fails: meter.refuse(bytes, capacity, "cpu") ...
//   meter.keep(taken);
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

#include "runtime/device.h"

namespace kerf::runtime {

class MemoryMeter {
 public:
  // What is in use with these. Throws Error{kUnavailable} naming `device` where it is above the
  // cap, and counts nothing then.
  size_t take(size_t bytes, const std::string& device) {
    size_t current = current_.load();
    do {
      const size_t cap = cap_.load();
      if (cap != 0 && (bytes > cap || current > cap - bytes))
        throw_above_cap(bytes, current, cap, device);
    } while (!current_.compare_exchange_weak(current, current + bytes));
    return current + bytes;
  }
  // What was taken has been allocated.
  void keep(size_t taken) {
    size_t peak = peak_.load();
    while (peak < taken && !peak_.compare_exchange_weak(peak, taken)) continue;
  }
  // What was taken cannot be had: gives it back, and throws Error{kUnavailable} naming `device`.
  [[noreturn]] void refuse(size_t bytes, size_t capacity, const std::string& device);
  void subtract(size_t bytes) noexcept { current_.fetch_sub(bytes); }
  void reset_peak() { peak_.store(current_.load()); }
  void set_cap(size_t bytes) { cap_.store(bytes); }

  size_t current() const { return current_.load(); }
  MemoryStats stats(size_t capacity) const { return {current_.load(), peak_.load(), capacity}; }

 private:
  [[noreturn]] static void throw_above_cap(size_t bytes, size_t current, size_t cap,
                                           const std::string& device);

  std::atomic<size_t> current_{0};
  std::atomic<size_t> peak_{0};
  std::atomic<size_t> cap_{0};
};

}  // namespace kerf::runtime
