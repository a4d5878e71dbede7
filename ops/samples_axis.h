// Axis 0 of what has samples there.
#pragma once

#include "ops/iteration.h"

namespace kerf::ops {

// The batch where `extent` counts it; as many rows as it says where it is a number.
inline IterationAxis samples_axis(int64_t extent) {
  return {extent < 0 ? AxisKind::kSample : AxisKind::kSpace, "samples", extent};
}

}  // namespace kerf::ops
