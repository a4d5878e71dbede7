// MatMul (ONNX, opset 13): Y = A * B.
//
//   A [N, K] or [N, T, K]   B [K, O], shared by all samples        Y [N, O] or [N, T, O]
//   A [N, T, K]             B [N, K, O], one matrix per sample     Y [N, T, O]
//
// Other ranks and broadcasting of the batch are refused. A wanted box divides rows or columns at
// will: what is not divided with it (B by rows, A by columns) gets a partial gradient.
#pragma once

#include <memory>

#include "ops/operator.h"

namespace kerf::ops {

std::unique_ptr<const Operator> make_matmul();

}  // namespace kerf::ops
