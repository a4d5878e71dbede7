// Checks of cuDNN calls, as cublas_check.h has them for cuBLASLt. Any thread.
#pragma once

#include <cudnn_backend.h>

#include "ops/cuda/queue.h"

namespace kerf::ops::cuda {

// Throws unless `status` is success: what CUDA says of the queue where the call worked, where that
// has failed; else, with cuDNN's own words, Error{kUnavailable} where it has no memory, is not
// whole or does not know the GPU, Error{kDeviceLost} where work on the GPU failed, or
// Error{kInternal}.
void check_cudnn(cudnnStatus_t status, const char* call, const Queue& queue);
// Whether it says that cuDNN can do no such thing.
bool is_unsupported(cudnnStatus_t status);

}  // namespace kerf::ops::cuda
