#include "runtime/cuda/cuda_check.h"

#include "runtime/error.h"

namespace kerf::runtime {

namespace {

// cudaErrorContained and cudaErrorTensorMemoryLeak, which CUDA 12.8 does not know by name: errors
// of memory behind which a process has to begin anew.
constexpr auto kContained = static_cast<cudaError_t>(226);
constexpr auto kTensorMemoryLeak = static_cast<cudaError_t>(721);

struct Meaning {
  ErrorCode code = ErrorCode::kInternal;
  const char* way_out = "";
};

Meaning meaning_of(cudaError_t status) {
  if (status == kContained || status == kTensorMemoryLeak) status = cudaErrorECCUncorrectable;
  switch (status) {
    case cudaErrorMemoryAllocation:
      return {ErrorCode::kUnavailable,
              "; take more --workers or --micro-batches, or see who else uses the GPU"};
    case cudaErrorInitializationError:
    case cudaErrorInsufficientDriver:
    case cudaErrorInvalidDevice:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorStubLibrary:
    case cudaErrorOperatingSystem:
    case cudaErrorUnknown:  // what a driver in disorder says
      return {ErrorCode::kUnavailable, ""};
    case cudaErrorNoDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchTimeout:
      return {ErrorCode::kDeviceLost,
              "; the GPU is lost to this process: look at nvidia-smi, and use another device"};
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
      return {ErrorCode::kDeviceLost,
              "; work that was enqueued earlier did it: CUDA_LAUNCH_BLOCKING=1 shows which"};
    default:
      return {};
  }
}

}  // namespace

void check_cuda(cudaError_t status, const char* call, const std::string& where) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  const Meaning meaning = meaning_of(status);
  throw Error(meaning.code,
              format("{} failed: {} ({}, {}){}", call, cudaGetErrorString(status),
                     cudaGetErrorName(status), static_cast<int>(status), meaning.way_out),
              where);
}

bool is_device_lost(cudaError_t status) {
  return status != cudaSuccess && meaning_of(status).code == ErrorCode::kDeviceLost;
}

void use_cuda_device(int index) {
  const cudaError_t status = cudaSetDevice(index);
  if (status != cudaSuccess) check_cuda(status, "cudaSetDevice", format("cuda:{}", index));
}

void ignore_cuda_error(cudaError_t status) noexcept {
  if (status != cudaSuccess) cudaGetLastError();
}

}  // namespace kerf::runtime
