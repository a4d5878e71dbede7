// Checks of CUDA calls: every failure becomes an Error that names the call. Any thread.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace kerf::runtime {

// Throws unless `status` is success: Error{kUnavailable} when memory or a driver is missing or out
// of order, Error{kDeviceLost} when this process's context of the GPU is gone, as every later call
// would say, Error{kInternal} otherwise; with the way out where there is one, and a word that the
// error is of earlier work where it shows late. `where` is the device ("cuda:0"). Clears CUDA's own
// record of the error.
void check_cuda(cudaError_t status, const char* call, const std::string& where);

// Whether check_cuda() would call it the loss of a device.
bool is_device_lost(cudaError_t status);

// Makes device `index` current for this thread, for good: a worker has one device, and since CUDA
// 12 making another current, if only to restore it, would take memory for a context there.
void use_cuda_device(int index);

// For destructors: what fails there is the failure of earlier work, which its own stream reports.
// It must not stay behind as CUDA's last error.
void ignore_cuda_error(cudaError_t status) noexcept;

}  // namespace kerf::runtime
