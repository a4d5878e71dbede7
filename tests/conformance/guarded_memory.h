// Device memory with a guard behind it, which tells whether somebody went past the end.
//
// On a CPU nothing can be read or written beyond the block of 64 bytes in which the memory ends, as
// at the end of an arena or a slot: a page without access follows. Elsewhere writes are found by
// intact(). Owned by a test; fills and looks through a stream.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "runtime/device.h"

namespace kerf::ops {

class GuardedMemory {
 public:
  // Bytes of ones: floats that are no numbers.
  GuardedMemory(runtime::Device& device, runtime::Stream& stream, size_t bytes);

  std::byte* data() const { return bytes_ == 0 ? nullptr : data_; }
  size_t bytes() const { return bytes_; }
  std::span<std::byte> span() const { return {data(), bytes_}; }
  bool intact(runtime::Stream& stream) const;

 private:
  struct Unmap {
    void operator()(std::byte* pages) const;
    size_t bytes;
  };

  size_t bytes_ = 0;
  size_t guard_ = 0;  // bytes behind
  std::unique_ptr<std::byte, Unmap> pages_{nullptr, Unmap{0}};
  runtime::Buffer buffer_;
  std::byte* data_ = nullptr;
};

}  // namespace kerf::ops
