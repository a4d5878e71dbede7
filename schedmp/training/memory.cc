#include "schedmp/training/memory.h"

#include <algorithm>

#include "partitioner/memory.h"
#include "runtime/error.h"

namespace kerf::schedmp {

void GrantedDevice::grant(std::byte* memory, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  KERF_CHECK(live_ == 0, "a kernel keeps its workspace");
  memory_ = memory;
  granted_ = static_cast<size_t>(bytes);
}

runtime::Buffer GrantedDevice::allocate(size_t bytes) {
  if (bytes == 0) return {};
  const std::lock_guard lock(mutex_);
  const auto blocks = static_cast<size_t>(partitioner::whole_blocks(static_cast<int64_t>(bytes)));
  size_t best = kMostBuffers;
  size_t best_gap = SIZE_MAX;
  size_t begin = 0;
  for (size_t i = 0; i <= live_; ++i) {
    const size_t from = i == 0 ? 0 : ranges_[i - 1].end;
    const size_t gap = (i == live_ ? granted_ : ranges_[i].begin) - from;
    if (gap < blocks || gap >= best_gap) continue;
    best = i;
    best_gap = gap;
    begin = from;
  }
  KERF_CHECK(best < kMostBuffers && live_ < kMostBuffers,
             "a kernel takes {} bytes of workspace beside {} buffers, granted {}", bytes, live_,
             granted_);
  const auto at = ranges_.begin() + static_cast<std::ptrdiff_t>(best);
  std::move_backward(at, ranges_.begin() + static_cast<std::ptrdiff_t>(live_),
                     ranges_.begin() + static_cast<std::ptrdiff_t>(live_) + 1);
  *at = {begin, begin + blocks};
  ++live_;
  return {this, memory_ + begin, bytes};
}

void GrantedDevice::release(void* data, size_t /*bytes*/) noexcept {
  const std::lock_guard lock(mutex_);
  const auto begin = static_cast<size_t>(static_cast<std::byte*>(data) - memory_);
  const auto end = ranges_.begin() + static_cast<std::ptrdiff_t>(live_);
  const auto at =
      std::find_if(ranges_.begin(), end, [&](const Range& range) { return range.begin == begin; });
  if (at == end) return;
  std::move(at + 1, end, at);
  --live_;
}

}  // namespace kerf::schedmp
