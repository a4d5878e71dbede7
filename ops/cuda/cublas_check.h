// Checks of cuBLAS calls, as runtime/cuda/cuda_check.h has them for CUDA. Any thread.
#pragma once

#include <cublasLt.h>

#include "ops/cuda/queue.h"

namespace kerf::ops::cuda {

// Throws unless `status` is success: what CUDA says of the queue where the call worked, as
// check_cuda() does, where that has failed; else Error{kUnavailable} where the library has no
// memory, no GPU that it knows or no way to do it, Error{kDeviceLost} where work on the GPU failed,
// or Error{kInternal}. With the way out where there is one.
void check_cublas(cublasStatus_t status, const char* call, const Queue& queue);

}  // namespace kerf::ops::cuda
