// Units of memory: what a tensor takes is more than its bytes.
#pragma once

#include <cstdint>

#include "runtime/device.h"

namespace kerf::partitioner {

// Devices and channels hand out memory in blocks of 64 bytes.
inline int64_t whole_blocks(int64_t bytes) { return (bytes + 63) / 64 * 64; }
// Each channel's slots lie in pages of their own, or in blocks that a GPU exports.
inline constexpr int64_t kPage = 4096;
inline int64_t whole_pages(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
inline int64_t whole_exported_blocks(int64_t bytes) {
  constexpr auto kBlock = static_cast<int64_t>(runtime::kExportedBlock);
  return (bytes + kBlock - 1) / kBlock * kBlock;
}

}  // namespace kerf::partitioner
