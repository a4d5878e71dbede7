// Add (ONNX, opset 14): Z = A + B, of one shape, or one of them repeated over the other.
//
// Broadcasting is NumPy's, from the last axis backwards, but the output has the shape of one of the
// inputs, and the other may not have the batch (a parameter: [N, F] + [F]). The gradient of a
// repeated input is the sum over its repetitions: partial where a wanted box holds only some of
// them.
#pragma once

#include <memory>

#include "ops/operator.h"

namespace kerf::ops {

std::unique_ptr<const Operator> make_add();

}  // namespace kerf::ops
