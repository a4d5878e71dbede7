// The lines along one axis of a tensor [outer, length, inner], for bodies that reduce over it: one
// for each place of outer and inner, in their order.
#pragma once

#include "ops/cuda/launch.cuh"

namespace kerf::ops::cuda {

struct AxisLines {
  int64_t length;
  int64_t inner;
  KERF_DEVICE int64_t at(int64_t line, int64_t i) const {
    return (line / inner * length + i) * inner + line % inner;
  }
};

}  // namespace kerf::ops::cuda
