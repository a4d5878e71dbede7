#include "ops/cuda/cublas_check.h"

#include "runtime/cuda/cuda_check.h"
#include "runtime/error.h"

namespace kerf::ops::cuda {
namespace {

struct Meaning {
  ErrorCode code = ErrorCode::kInternal;
  const char* way_out = "";
};

Meaning meaning_of(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_ALLOC_FAILED:
      return {ErrorCode::kUnavailable,
              "; take more --workers or --micro-batches, or see who else uses the GPU"};
    case CUBLAS_STATUS_NOT_INITIALIZED:
    case CUBLAS_STATUS_ARCH_MISMATCH:
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return {ErrorCode::kUnavailable, "; run this worker on another device"};
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return {ErrorCode::kLost, "; the GPU did not do it: look at nvidia-smi, and use another"};
    default:
      return {};
  }
}

}  // namespace

void check_cublas(cublasStatus_t status, const char* call, const Queue& queue) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  // CUDA says more: which error it was, and of what. The library has a runtime of its own, so that
  // ours has no record of it, but whoever asks a GPU that failed hears of it.
  const cudaError_t failure = cudaStreamQuery(queue.stream());
  if (failure != cudaErrorNotReady) runtime::check_cuda(failure, call, queue.name());
  runtime::ignore_cuda_error(failure);
  const Meaning meaning = meaning_of(status);
  throw Error(meaning.code,
              format("{} failed: {} ({}){}", call, cublasLtGetStatusString(status),
                     static_cast<int>(status), meaning.way_out),
              queue.name());
}

}  // namespace kerf::ops::cuda
