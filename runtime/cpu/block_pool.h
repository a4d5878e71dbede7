// A pool of host memory blocks that gives back a released block of the same size class, so that a
// micro-batch costs no system call and no page fault once the first one has run. Large blocks lie
// on huge pages, where the system has them for those who ask (ADR 77).
//
// Owned by the CPU device. Thread-safe. What it keeps is bounded: blocks in use and kept together
// never exceed the largest use there has been by more than kSlackBytes; the class unused for
// longest is given back to the system first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace kerf::runtime {

class BlockPool {
 public:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kSlackBytes = size_t{64} << 20;

  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();

  // At least `bytes` (> 0) bytes, aligned; null when the system has none.
  void* take(size_t bytes);
  // `bytes` as it was taken.
  void give(void* block, size_t bytes) noexcept;
  // Bytes of blocks that nobody uses.
  size_t kept() const;

 private:
  // Eight classes per power of two: at most 1/8 of a block is unused.
  struct Class {
    uint64_t last_use = 0;
    size_t total = 0;           // in use and kept
    std::vector<void*> blocks;  // kept; has room for all, so that give() cannot fail
  };
  static constexpr size_t kClasses = 512;

  static size_t class_of(size_t bytes);
  static size_t block_bytes(size_t index);
  void* fresh(size_t index);
  // Frees kept blocks until used and kept together are at most `limit`, or none is kept.
  void trim(size_t limit) noexcept;

  mutable std::mutex mutex_;
  std::array<Class, kClasses> classes_;
  uint64_t uses_ = 0;
  size_t used_ = 0;
  size_t most_used_ = 0;
  size_t kept_ = 0;
};

}  // namespace kerf::runtime
