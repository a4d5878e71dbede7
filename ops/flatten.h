// Flatten (ONNX, opset 13) with axis 1: [N, ...] read as [N, features], without a copy.
#pragma once

#include <memory>

#include "ops/operator.h"

namespace kerf::ops {

std::unique_ptr<const Operator> make_flatten();

}  // namespace kerf::ops
