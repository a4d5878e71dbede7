// Dropout (ONNX, opset 13): zero with probability `ratio`, times 1 / (1 - ratio) otherwise; the
// identity outside training.
//
// The ratio is input 1 (a scalar) or the attribute of that name (default 0.5), in [0, 1). Which
// elements are dropped is a pure function of Call::key and the element's index within the whole
// step's tensor, so however the tensor is cut, the same elements are. The gradient draws them
// again: nothing is kept but the ratio.
#pragma once

#include <memory>

#include "ops/operator.h"

namespace kerf::ops {

std::unique_ptr<const Operator> make_dropout();
// Throws Error{kUsage} outside [0, 1).
void check_dropout_ratio(double ratio);

}  // namespace kerf::ops
