// A table that kernels read while they run: index sets of a kernel's part, ranges of its axes.
//
// Made with a kernel, of numbers that no call changes, and freed with it: kernel memory
// (kernel_memory.h), not a tensor's. Owned by a kernel; its compute thread.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/cuda/queue.h"

namespace kerf::ops::cuda {

class DeviceTable {
 public:
  // Throws Error{kUnavailable} where memory is short.
  DeviceTable(const Queue& queue, const std::vector<int64_t>& numbers);

  const int64_t* data() const { return static_cast<const int64_t*>(memory_.get()); }

 private:
  KernelMemory::Piece memory_;
};

}  // namespace kerf::ops::cuda
