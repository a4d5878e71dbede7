// Gemm (ONNX, opset 13): Y = alpha * A' * B' + beta * C, a fully connected layer.
//
//   A [N, K], or [K, N] with transA   B [K, O], or [O, K] with transB   Y [N, O]
//   C optional, repeated over Y as NumPy does: [O], [1, O], [N, 1], [N, O], [1], []
//
// Iterations: samples, outputs (features), inputs (summed), which are not the batch. C is added by
// the call that has input 0.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class Gemm final : public BoundOperator {
 public:
  explicit Gemm(const NodeFacts& facts);

  float alpha() const { return alpha_; }
  float beta() const { return beta_; }
  bool transpose_a() const { return transpose_a_; }
  bool transpose_b() const { return transpose_b_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  float alpha_;
  float beta_;
  bool transpose_a_;
  bool transpose_b_;
};

// The gradient of A (0) or B (1) as one product, of dY and of the other factor as it lies.
struct GemmGradient {
  bool dy_first;
  bool transpose_first;
  bool transpose_second;
};
GemmGradient gemm_gradient_of(const Gemm& op, int input);

// C's shape, or a local one, as that of a matrix.
Shape bias_matrix(const Shape& c);

}  // namespace kerf::ops
