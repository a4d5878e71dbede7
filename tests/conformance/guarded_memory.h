// Device memory with a guard behind it, which tells whether somebody wrote past the end.
//
// Owned by a test; fills and looks through a stream, so that it works on any device.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/device.h"

namespace kerf::ops {

class GuardedMemory {
 public:
  // Bytes of ones: floats that are no numbers.
  GuardedMemory(runtime::Device& device, runtime::Stream& stream, size_t bytes);

  std::byte* data() const { return bytes_ == 0 ? nullptr : buffer_.data(); }
  size_t bytes() const { return bytes_; }
  std::span<std::byte> span() const { return {data(), bytes_}; }
  bool intact(runtime::Stream& stream) const;

 private:
  size_t bytes_ = 0;
  runtime::Buffer buffer_;
};

}  // namespace kerf::ops
