// Reshape (ONNX, opset 13): the same elements under another shape, without a copy.
//
// The shape is the attribute `shape` (a list; the ONNX reader puts the constant second input
// there): [0 or -1, ...]. Axis 0, the samples, stays: 0 copies it, or -1 is inferred to be it.
// Elsewhere 0 copies the input's extent and one -1 is inferred.
#pragma once

#include <memory>

#include "ops/operator.h"

namespace kerf::ops {

std::unique_ptr<const Operator> make_reshape();

}  // namespace kerf::ops
