// What a run reports beside the loss. Pure functions of host memory.
#pragma once

#include "ops/tensor.h"

namespace kerf::ops {

// Rows of `scores` [n, classes] whose largest entry (the first, on ties) is at the label. A row
// with a NaN, or with a label that is no class, is not correct.
int64_t count_correct(const TensorView& scores, const TensorView& labels);

}  // namespace kerf::ops
