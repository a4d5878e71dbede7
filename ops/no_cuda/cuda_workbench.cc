// Compiled instead of cuda/ where the build has no CUDA.
#include "ops/workbench.h"

namespace kerf::ops {

std::unique_ptr<Workbench> make_cuda_workbench(runtime::Device& device, runtime::Stream&) {
  throw Error(ErrorCode::kUnavailable,
              format("no operator has a kernel for device {}: this build has no CUDA (configure "
                     "with -DKERF_CUDA=ON)",
                     device.name()));
}

}  // namespace kerf::ops
