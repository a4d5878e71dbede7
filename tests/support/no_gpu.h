// Why tests of a GPU are skipped; empty where there is one.
#pragma once

#include <string>

#include "runtime/device.h"

namespace kerf::tests {

inline std::string no_gpu() {
  const runtime::CudaSupport cuda = runtime::cuda_support();
  if (cuda.devices > 0) return {};
  return cuda.built ? cuda.reason : "this build has no CUDA";
}

}  // namespace kerf::tests
