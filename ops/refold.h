// What a box becomes when its tensor is read with another shape.
//
// Pure functions of boxes and shapes; shapes may have the symbolic batch on axis 0.
#pragma once

#include <optional>

#include "ops/layout.h"
#include "ops/tensor.h"

namespace kerf::ops {

// The box of a tensor of shape `to` that holds the same elements, in the same row-major order, as
// `box` of a tensor of shape `from`. Axis 0 (the samples) is the same in both. Empty where those
// elements are no box of `to`: half a channel, say.
std::optional<Box> refold(const Box& box, const Shape& from, const Shape& to);

}  // namespace kerf::ops
