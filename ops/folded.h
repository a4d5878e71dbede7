// A tensor seen along one of its axes: [outer, length, inner].
#pragma once

#include <cstdint>

#include "ops/tensor.h"

namespace kerf::ops {

struct Folded {
  int64_t outer = 1;
  int64_t length = 1;
  int64_t inner = 1;
};

inline Folded fold(const Shape& shape, int axis) {
  Folded folded{.length = shape[axis]};
  for (int i = 0; i < axis; ++i) folded.outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) folded.inner *= shape[i];
  return folded;
}

}  // namespace kerf::ops
