// Softmax (ONNX, opset 13): Y = exp(X) / sum of exp(X) along one axis (attribute `axis`, default
// the last).
//
// A box that divides that axis must be gathered first; all other axes divide at will. Never the
// batch.
#pragma once

#include <memory>

#include "ops/operator.h"

namespace kerf::ops {

std::unique_ptr<const Operator> make_softmax();

}  // namespace kerf::ops
