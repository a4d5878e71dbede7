#include "ops/cuda/cublas_check.h"

#include "ops/cuda/library_failure.h"

namespace kerf::ops::cuda {
namespace {

LibraryFailure meaning_of(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_ALLOC_FAILED:
      return {ErrorCode::kUnavailable,
              "; take more --workers or --micro-batches, or see who else uses the GPU"};
    case CUBLAS_STATUS_NOT_INITIALIZED:
    case CUBLAS_STATUS_ARCH_MISMATCH:
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return {ErrorCode::kUnavailable, "; run this worker on another device"};
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return {ErrorCode::kDeviceLost,
              "; the GPU did not do it: look at nvidia-smi, and use another"};
    default:
      return {};
  }
}

}  // namespace

void check_cublas(cublasStatus_t status, const char* call, const Queue& queue) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw_library_failure(
      call, format("{} ({})", cublasLtGetStatusString(status), static_cast<int>(status)),
      meaning_of(status), queue);
}

}  // namespace kerf::ops::cuda
