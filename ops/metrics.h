// What a run reports beside the loss. Pure functions of host memory.
#pragma once

#include "ops/tensor.h"

namespace kerf::ops {

// Rows of `scores` [n, classes, ...] where the label's entry is among the `among` largest (the
// first ones, on ties); a row is one position of one sample. A NaN counts as larger than any
// number; a row whose label has a NaN, or is no class, is not correct.
int64_t count_correct(const TensorView& scores, const TensorView& labels, int64_t among = 1);

// The same where the classes are divided: rows whose label's score, `picked` [n, ...], is as large
// as any of the segments' in `maximum` [n, segments, ...]. On ties every one of the largest counts.
int64_t count_picked(const TensorView& maximum, const TensorView& picked);

// The sum of the squares of a float32 tensor, in float64: not finite if and only if one of its
// entries is not. The order of the sum follows from the number of entries alone, so that no
// instruction set, and no number of threads, changes a bit.
double squared_norm(const TensorView& tensor);

}  // namespace kerf::ops
