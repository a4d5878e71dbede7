// Flatten (ONNX, opset 13) with axis 1: [N, ...] read as [N, features], without a copy.
//
// A wanted set of features becomes the box of the input that holds the same elements; where there
// is none (half a channel) it is refused.
#pragma once

#include <memory>

#include "ops/operator.h"

namespace kerf::ops {

std::unique_ptr<const Operator> make_flatten();

}  // namespace kerf::ops
