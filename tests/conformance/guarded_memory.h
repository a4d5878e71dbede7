// Device memory with a guard behind it, which tells whether somebody went past the end.
//
// On a CPU nothing can be read or written beyond the block of 64 bytes in which the memory ends, as
// at the end of an arena or a slot: a page without access follows. Elsewhere writes are found by
// intact(). Owned by a test; fills and looks through a stream without waiting, so it lives until
// the stream was waited for. Its pages come from GuardedPages and go back there: to map some and to
// take the access away from one costs more than most kernels.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "runtime/device.h"

namespace kerf::ops {

// Pages of a CPU, each stretch with a page without access behind it. Lives as long as what it gave.
class GuardedPages {
 public:
  GuardedPages() = default;
  GuardedPages(const GuardedPages&) = delete;
  GuardedPages& operator=(const GuardedPages&) = delete;
  ~GuardedPages();

  // The first byte of a page without access, before which are `bytes`: ones, which they also become
  // when they are given back, for who still reads there.
  std::byte* take(size_t bytes);
  void give_back(std::byte* end);

 private:
  std::map<std::byte*, size_t> mapped_;  // by the end: bytes before it
  std::multimap<size_t, std::byte*> free_;
};

class GuardedMemory {
 public:
  // Bytes of ones: floats that are no numbers.
  GuardedMemory(runtime::Device& device, runtime::Stream& stream, GuardedPages& pages,
                size_t bytes);
  GuardedMemory(runtime::Device& device, runtime::Stream& stream, GuardedPages& pages,
                std::vector<std::byte> content);

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
  struct GiveBack {
    void operator()(std::byte* end) const { pages->give_back(end); }
    GuardedPages* pages;
  };

  size_t bytes_ = 0;
  size_t guard_ = 0;               // bytes behind
  std::vector<std::byte> filled_;  // the content and the guard, as written at first
  std::vector<std::byte> seen_;    // and as last looked at
  std::unique_ptr<std::byte, GiveBack> end_{nullptr, GiveBack{nullptr}};
  runtime::Buffer buffer_;
  std::byte* data_ = nullptr;
};

}  // namespace kerf::ops
