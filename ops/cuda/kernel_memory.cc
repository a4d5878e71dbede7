#include "ops/cuda/kernel_memory.h"

#include <cuda_runtime_api.h>

#include "runtime/cuda/cuda_check.h"
#include "runtime/error.h"

namespace kerf::ops::cuda {

void KernelMemory::Free::operator()(void* data) const noexcept {
  runtime::ignore_cuda_error(cudaFree(data));
  owner->bytes_ -= bytes;
}

KernelMemory::Piece KernelMemory::allocate(size_t bytes) {
  if (bytes == 0) return {};
  if (bytes > kMost - bytes_)
    throw Error(
        ErrorCode::kUnavailable,
        format("kernels want {} for the index sets of their parts, beside {} that they "
               "have, more than {}; take a cut whose parts have longer ranges of indices",
               human_bytes(static_cast<double>(bytes)), human_bytes(static_cast<double>(bytes_)),
               human_bytes(static_cast<double>(kMost))),
        name_);
  void* data = nullptr;
  runtime::check_cuda(cudaMalloc(&data, bytes), "cudaMalloc", name_);
  bytes_ += bytes;
  return Piece(data, {this, bytes});
}

}  // namespace kerf::ops::cuda
