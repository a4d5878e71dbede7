// Gemm (ONNX, opset 13): Y = alpha * A * B' + beta * C, a fully connected layer.
//
//   A [N, K]   B [K, O], or [O, K] with transB   C [O] or [1, O], optional   Y [N, O]
//
// transA is refused: rows are samples. Iterations: samples, outputs (features), inputs (summed). C
// is added by the call that has input 0.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class Gemm final : public BoundOperator {
 public:
  explicit Gemm(const NodeFacts& facts);

  float alpha() const { return alpha_; }
  float beta() const { return beta_; }
  bool transpose_b() const { return transpose_b_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  float alpha_;
  float beta_;
  bool transpose_b_;
};

}  // namespace kerf::ops
