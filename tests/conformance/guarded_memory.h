// Device memory with a guard behind it, which tells whether somebody went past the end.
//
// On a CPU nothing can be read or written beyond the block of 64 bytes in which the memory ends, as
// at the end of an arena or a slot: a page without access follows. Elsewhere writes are found by
// intact(). Owned by a test; fills and looks through a stream without waiting, so it lives until
// the stream was waited for.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "runtime/device.h"

namespace kerf::ops {

class GuardedMemory {
 public:
  // Bytes of ones: floats that are no numbers.
  GuardedMemory(runtime::Device& device, runtime::Stream& stream, size_t bytes);
  GuardedMemory(runtime::Device& device, runtime::Stream& stream, std::vector<std::byte> content);

  std::byte* data() const { return bytes_ == 0 ? nullptr : data_; }
  size_t bytes() const { return bytes_; }
  std::span<std::byte> span() const { return {data(), bytes_}; }

  // Copies what is there now, or the guard alone, to the host: known when the stream is there.
  void look(runtime::Stream& stream);
  void look_at_guard(runtime::Stream& stream);
  // At the last look: whether nobody wrote past the end; whether nobody wrote at all.
  bool intact() const;
  bool unchanged() const { return seen_ == filled_; }

 private:
  struct Unmap {
    void operator()(std::byte* pages) const;
    size_t bytes;
  };

  size_t bytes_ = 0;
  size_t guard_ = 0;               // bytes behind
  std::vector<std::byte> filled_;  // the content and the guard, as written at first
  std::vector<std::byte> seen_;    // and as last looked at
  std::unique_ptr<std::byte, Unmap> pages_{nullptr, Unmap{0}};
  runtime::Buffer buffer_;
  std::byte* data_ = nullptr;
};

}  // namespace kerf::ops
