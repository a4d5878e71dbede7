// What the played GPU says of itself and of its errors.
#include <cstdio>

#include "tests/support/cuda_on_host/gpu_call.h"

using kerf::tests::call;
using kerf::tests::GpuState;
using kerf::tests::kGpuMemory;
using kerf::tests::kGpus;

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorECCUncorrectable:
      return "uncorrectable ECC error encountered";
    default:
      return "an error of the played GPU";
  }
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorECCUncorrectable:
      return "cudaErrorECCUncorrectable";
    default:
      return "cudaError";
  }
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  return call("cudaGetDeviceCount", [&](GpuState&) {
    *count = kGpus;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call("cudaGetDeviceProperties", [&](GpuState&) {
    if (device < 0 || device >= kGpus) return cudaErrorInvalidDevice;
    *properties = {"a GPU played by the host", {}, kGpuMemory, 9, 0};
    std::snprintf(properties->uuid.bytes, sizeof properties->uuid.bytes, "played GPU %d", device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call("cudaDeviceGetAttribute", [&](GpuState&) {
    if (device < 0 || device >= kGpus) return cudaErrorInvalidDevice;
    if (attribute != cudaDevAttrCanUseHostPointerForRegisteredMem) return cudaErrorInvalidValue;
    *value = 1;
    return cudaSuccess;
  });
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return call("cudaInitDevice", [&](GpuState&) {
    return device < 0 || device >= kGpus ? cudaErrorInvalidDevice : cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", [&](GpuState&) {
    if (device < 0 || device >= kGpus) return cudaErrorInvalidDevice;
    kerf::tests::current_gpu() = device;
    return cudaSuccess;
  });
}
