// Checks of CUDA calls: every failure becomes an Error that names the call. Any thread.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace kerf::runtime {

// Throws unless `status` is success: Error{kUnavailable} when memory, a device or a driver is
// missing, Error{kInternal} otherwise. `where` is the device ("cuda:0"). Clears CUDA's own record
// of the error.
void check_cuda(cudaError_t status, const char* call, const std::string& where);

// Makes device `index` current for this thread until the end of the scope.
class OnCudaDevice {
 public:
  explicit OnCudaDevice(int index);
  OnCudaDevice(const OnCudaDevice&) = delete;
  OnCudaDevice& operator=(const OnCudaDevice&) = delete;
  ~OnCudaDevice();

 private:
  int index_;
  int before_ = 0;
};

}  // namespace kerf::runtime
