// The iterations of a reshape: the finest axes of which both shapes are made.
//
//   [N, 16, 5, 5] -> [N, 400]     iterations N, 16, 5, 5; the output's axis 1 is three of them
//   [N, T, D]     -> [T * N, D]   iterations N, T, D
//   [4, 6]        -> [6, 4]       no common axes: one iteration axis of 24, which stays whole
//
// Pure function of two shapes with the same elements per sample.
#pragma once

#include "ops/iteration.h"

namespace kerf::ops {

// With one input (`from`) and one output (`to`).
IterationSpace common_axes(const Shape& from, const Shape& to);

}  // namespace kerf::ops
