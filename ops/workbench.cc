#include "ops/workbench.h"

namespace kerf::ops {

std::unique_ptr<Workbench> make_workbench(runtime::Device& device, runtime::Stream& stream) {
  switch (device.kind()) {
    case runtime::DeviceKind::kCpu:
      return make_cpu_workbench(device, stream);
    case runtime::DeviceKind::kCuda:
      return make_cuda_workbench(device, stream);
  }
  throw Error(ErrorCode::kUnavailable,
              format("no operator has a kernel for device {}; use device cpu", device.name()));
}

}  // namespace kerf::ops
