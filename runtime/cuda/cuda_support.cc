// Whether a GPU can be used, and if not, why.
#include "runtime/cuda/cuda_check.h"
#include "runtime/device.h"
#include "runtime/format.h"

namespace kerf::runtime {
namespace {

// 13000 -> "13.0", as CUDA counts.
std::string version_text(int version) {
  return format("{}.{}", version / 1000, version % 1000 / 10);
}

// The same status for a driver that is not there and for one that is too old.
std::string driver_text() {
  int driver = 0;
  int wanted = 0;
  ignore_cuda_error(cudaDriverGetVersion(&driver));
  ignore_cuda_error(cudaRuntimeGetVersion(&wanted));
  if (driver == 0) return "no NVIDIA driver is installed on this host";
  return format("the NVIDIA driver is too old: it has CUDA {}, this build needs {}",
                version_text(driver), version_text(wanted));
}

std::string reason_of(cudaError_t status) {
  switch (status) {
    case cudaErrorInsufficientDriver:
      return driver_text();
    case cudaErrorNoDevice:
      return "the NVIDIA driver finds no GPU (CUDA_VISIBLE_DEVICES may hide it)";
    default:
      return format("CUDA does not answer: {} ({}, {})", cudaGetErrorString(status),
                    cudaGetErrorName(status), static_cast<int>(status));
  }
}

}  // namespace

CudaSupport cuda_support() {
  CudaSupport cuda{true, 0, {}};
  const cudaError_t status = cudaGetDeviceCount(&cuda.devices);
  if (status == cudaSuccess && cuda.devices > 0) return cuda;
  ignore_cuda_error(status);
  return {true, 0, reason_of(status == cudaSuccess ? cudaErrorNoDevice : status)};
}

}  // namespace kerf::runtime
