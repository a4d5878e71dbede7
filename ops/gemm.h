// Gemm (ONNX, opset 13): Y = alpha * A * B' + beta * C, a fully connected layer.
//
//   A [N, K]   B [K, O], or [O, K] with transB   C [O] or [1, O], optional   Y [N, O]
//
// transA is refused: rows are samples. A wanted set of output columns needs all of A, and those
// columns of B and C; its gradient of A is a partial sum.
#pragma once

#include <memory>

#include "ops/operator.h"

namespace kerf::ops {

struct GemmOptions {
  float alpha = 1;
  float beta = 1;
  bool transpose_b = false;
};

// Throws Error{kUsage}.
GemmOptions gemm_options(const Attributes& attributes);
std::unique_ptr<const Operator> make_gemm();

}  // namespace kerf::ops
