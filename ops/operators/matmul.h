// MatMul (ONNX, opset 13): Y = A * B, matrices in stacks.
//
//   A [..., M, K]   B [..., K, O]   Y [..., M, O]
//
// The axes before the last two are stacks, broadcast as NumPy does: [N, H, T, K] by [N, H, K, T] is
// a product per sample and head, [N, T, K] by [K, O] shares one B. Vectors are refused. Iterations:
// the stacks, rows, columns (features), inner (summed).
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class MatMul final : public BoundOperator {
 public:
  explicit MatMul(const NodeFacts& facts);

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override { return product_reads(*this); }
};

}  // namespace kerf::ops
