#include "runtime/cuda/cuda_check.h"

#include "runtime/error.h"

namespace kerf::runtime {

namespace {

ErrorCode code_of(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
    case cudaErrorInitializationError:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorStubLibrary:
    case cudaErrorOperatingSystem:
    case cudaErrorUnknown:  // what a driver in disorder says
      return ErrorCode::kUnavailable;
    default:
      return ErrorCode::kInternal;
  }
}

}  // namespace

void check_cuda(cudaError_t status, const char* call, const std::string& where) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw Error(code_of(status),
              format("{} failed: {} ({}, {})", call, cudaGetErrorString(status),
                     cudaGetErrorName(status), static_cast<int>(status)),
              where);
}

void use_cuda_device(int index) {
  const cudaError_t status = cudaSetDevice(index);
  if (status != cudaSuccess) check_cuda(status, "cudaSetDevice", format("cuda:{}", index));
}

void ignore_cuda_error(cudaError_t status) noexcept {
  if (status != cudaSuccess) cudaGetLastError();
}

}  // namespace kerf::runtime
