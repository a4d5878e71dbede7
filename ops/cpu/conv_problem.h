// One convolution as kernels see it: its extents, all local, and how its images lie.
#pragma once

#include <cstdint>

#include "ops/image_format.h"
#include "ops/window.h"

namespace kerf::ops::cpu {

struct ConvProblem {
  ImageFormat format = ImageFormat::kChannelsFirst;
  int64_t samples = 0;
  int64_t channels = 0;
  int64_t filters = 0;
  int64_t groups = 1;
  Window window;
};

}  // namespace kerf::ops::cpu
