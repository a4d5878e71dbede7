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

OnCudaDevice::OnCudaDevice(int index) : index_(index) {
  const std::string where = format("cuda:{}", index);
  check_cuda(cudaGetDevice(&before_), "cudaGetDevice", where);
  if (before_ != index_) check_cuda(cudaSetDevice(index_), "cudaSetDevice", where);
}

OnCudaDevice::~OnCudaDevice() {
  if (before_ != index_) cudaSetDevice(before_);
}

}  // namespace kerf::runtime
