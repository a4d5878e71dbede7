#include "ops/cuda/cudnn_check.h"

#include <array>

#include "ops/cuda/library_failure.h"

namespace kerf::ops::cuda {
namespace {

LibraryFailure meaning_of(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED:
    case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED:
      return {ErrorCode::kUnavailable,
              "; take more --workers or --micro-batches, or see who else uses the GPU"};
    case CUDNN_STATUS_NOT_INITIALIZED:
    case CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH:
    case CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED:
      return {ErrorCode::kUnavailable,
              "; all of cuDNN's libraries must be there, of one version that knows this GPU and "
              "its driver: install cuDNN 9 anew, or use --device cpu"};
    default:
      break;
  }
  if (is_unsupported(status))
    return {ErrorCode::kUnavailable, "; run this worker on another device"};
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_EXECUTION_FAILED)
    return {ErrorCode::kDeviceLost, "; the GPU did not do it: look at nvidia-smi, and use another"};
  return {};
}

}  // namespace

bool is_unsupported(cudnnStatus_t status) {
  return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED;
}

void check_cudnn(cudnnStatus_t status, const char* call, const Queue& queue) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 256> words{};
  cudnnGetLastErrorString(words.data(), words.size());
  words.back() = '\0';
  throw_library_failure(call,
                        format("{} ({}){}{}", cudnnGetErrorString(status), static_cast<int>(status),
                               words.front() == '\0' ? "" : ": ", words.data()),
                        meaning_of(status), queue);
}

}  // namespace kerf::ops::cuda
