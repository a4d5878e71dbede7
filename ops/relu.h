// Relu (ONNX, opset 14): Y = max(X, 0), of any shape. Box for box.
#pragma once

#include <memory>

#include "ops/operator.h"

namespace kerf::ops {

std::unique_ptr<const Operator> make_relu();

}  // namespace kerf::ops
