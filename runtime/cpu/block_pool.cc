#include "runtime/cpu/block_pool.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace kerf::runtime {

namespace {

// No block is larger: a wish beyond it is a mistake, and sums of sizes stay far from overflow.
constexpr size_t kLargest = size_t{1} << 40;
constexpr size_t kHugePage = size_t{2} << 20;

// A large block lies on huge pages where the system has them for those who ask: walks through the
// rows of a matrix touch a page each, more than the processor knows the addresses of.
void* allocate(size_t size) {
  if (size < kHugePage) return std::aligned_alloc(BlockPool::kAlignment, size);
  void* block = nullptr;
  if (::posix_memalign(&block, kHugePage, size) != 0) return nullptr;
  // Its last part may share a page with another block.
  ::madvise(block, size / kHugePage * kHugePage, MADV_HUGEPAGE);
  return block;
}

}  // namespace

// Units of kAlignment: 1..15 have a class each; from 16 on, a class is an exponent and the three
// bits below its leading one, rounded up.
size_t BlockPool::class_of(size_t bytes) {
  const size_t units = (bytes - 1) / kAlignment + 1;
  if (units < 16) return units;
  const int shift = std::bit_width(units) - 4;
  const size_t mantissa = ((units - 1) >> shift) + 1;  // 8..16; 16 is the next power's 8
  return 16 + static_cast<size_t>(shift - 1) * 8 + (mantissa - 8);
}

size_t BlockPool::block_bytes(size_t index) {
  if (index < 16) return index * kAlignment;
  const size_t shift = (index - 16) / 8 + 1;
  return ((index - 16) % 8 + 8) << shift << 6;
}

BlockPool::~BlockPool() { trim(0); }

void* BlockPool::take(size_t bytes) {
  if (bytes >= kLargest) return nullptr;
  const size_t index = class_of(bytes);
  const size_t size = block_bytes(index);
  const std::lock_guard lock(mutex_);
  Class& same = classes_[index];
  void* block = nullptr;
  if (same.blocks.empty()) {
    block = fresh(index);
    if (block == nullptr) return nullptr;
  } else {
    block = same.blocks.back();
    same.blocks.pop_back();
    kept_ -= size;
  }
  same.last_use = ++uses_;
  used_ += size;
  most_used_ = std::max(most_used_, used_);
  // A use after release, or beyond the end, is caught as if the pool were not there.
  ASAN_UNPOISON_MEMORY_REGION(block, bytes);
  return block;
}

void* BlockPool::fresh(size_t index) {
  const size_t size = block_bytes(index);
  Class& same = classes_[index];
  if (same.blocks.capacity() <= same.total) same.blocks.reserve(2 * same.total + 8);
  trim(std::max(most_used_, used_ + size) + kSlackBytes - size);
  void* block = allocate(size);
  if (block == nullptr) {
    trim(0);
    block = allocate(size);
  }
  if (block == nullptr) return nullptr;
  ++same.total;
  ASAN_POISON_MEMORY_REGION(block, size);
  return block;
}

void BlockPool::trim(size_t limit) noexcept {
  while (kept_ > 0 && used_ + kept_ > limit) {
    Class* oldest = nullptr;
    for (Class& each : classes_)
      if (!each.blocks.empty() && (oldest == nullptr || each.last_use < oldest->last_use))
        oldest = &each;
    const size_t size = block_bytes(static_cast<size_t>(oldest - classes_.data()));
    void* block = oldest->blocks.back();
    oldest->blocks.pop_back();
    --oldest->total;
    kept_ -= size;
    ASAN_UNPOISON_MEMORY_REGION(block, size);
    std::free(block);
  }
}

void BlockPool::give(void* block, size_t bytes) noexcept {
  const size_t index = class_of(bytes);
  const size_t size = block_bytes(index);
  const std::lock_guard lock(mutex_);
  used_ -= size;
  Class& same = classes_[index];
  same.last_use = ++uses_;
  same.blocks.push_back(block);
  kept_ += size;
  ASAN_POISON_MEMORY_REGION(block, size);
}

size_t BlockPool::kept() const {
  const std::lock_guard lock(mutex_);
  return kept_;
}

}  // namespace kerf::runtime
