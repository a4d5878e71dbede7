// Compiled instead of cuda/ where the build has no CUDA.
#include "runtime/device.h"
#include "runtime/error.h"

namespace kerf::runtime {

namespace {

[[noreturn]] void is_not_there(int index) {
  throw Error(ErrorCode::kUnavailable,
              format("cuda:{} is not there: this build has no CUDA (configure with -DKERF_CUDA=ON)",
                     index));
}

}  // namespace

std::unique_ptr<Device> make_cuda_device(int index) { is_not_there(index); }
std::string cuda_identity(int index) { is_not_there(index); }

CudaSupport cuda_support() {
  return {false, 0, "this build has no CUDA (configure with -DKERF_CUDA=ON)"};
}

}  // namespace kerf::runtime
