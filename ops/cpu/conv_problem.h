// One convolution as kernels see it: its extents, all local, and how its images lie.
#pragma once

#include <cstdint>

#include "ops/image_format.h"
#include "ops/window.h"

namespace kerf::ops::cpu {

// What is done with a convolution's sums in the same pass.
struct ConvEnding {
  bool adds = false;  // what lies where the result goes
  bool relu = false;
};

struct ConvProblem {
  ImageFormat format = ImageFormat::kChannelsFirst;
  int64_t samples = 0;
  int64_t channels = 0;
  int64_t filters = 0;
  int64_t groups = 1;
  Window window;
  ConvEnding ending = {};
  int64_t layout_samples = 16;  // weights are kept in the layout that is best for so many
};

}  // namespace kerf::ops::cpu
