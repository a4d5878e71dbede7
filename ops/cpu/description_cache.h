// What describing a primitive of oneDNN says: bytes, by the numbers that it is described with.
//
// A description takes some 30 us, and a planner asks for the same few thousands of times. So the
// process remembers; a pure function stays one. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace kerf::ops::cpu {

template <size_t kNumbers>
class DescriptionCache {
 public:
  using Key = std::array<int64_t, kNumbers>;

  template <class Describe>
  size_t bytes(const Key& key, const Describe& describe) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto at = bytes_.find(key); at != bytes_.end()) return at->second;
    }
    const size_t bytes = describe();
    const std::lock_guard lock(mutex_);
    if (bytes_.size() >= kMost) bytes_.clear();
    bytes_.emplace(key, bytes);
    return bytes;
  }

 private:
  static constexpr size_t kMost = 1 << 14;

  std::mutex mutex_;
  std::map<Key, size_t> bytes_;
};

}  // namespace kerf::ops::cpu
