// What a run reports beside the loss.
#pragma once

#include "ops/tensor.h"

namespace kerf::ops {

// Rows of `scores` [n, classes] whose largest entry (the first, on ties) is at the label.
int64_t count_correct(const TensorView& scores, const TensorView& labels);

}  // namespace kerf::ops
