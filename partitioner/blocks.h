// Units of memory: what a tensor takes is more than its bytes.
#pragma once

#include <cstdint>

namespace kerf::partitioner {

// Devices and channels hand out memory in blocks of 64 bytes.
inline int64_t whole_blocks(int64_t bytes) { return (bytes + 63) / 64 * 64; }
// Each channel's slots lie in pages of their own.
inline constexpr int64_t kPage = 4096;
inline int64_t whole_pages(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace kerf::partitioner
