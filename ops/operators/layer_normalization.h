// LayerNormalization (ONNX, opset 17): every row brought to mean 0 and variance 1, then scaled.
//
//   X [a..., b...]   Scale [b...]   B [b...], optional
//   Y [a..., b...]   Mean, InvStdDev [a..., 1...], optional
//
// A row is all axes from attribute `axis` (default -1) on; epsilon defaults to 1e-5. Iterations:
// the axes of X; those of a row stay whole, the others divide. I hands W the sums over its rows, so
// that W reads nothing else.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class LayerNormalization final : public BoundOperator {
 public:
  explicit LayerNormalization(const NodeFacts& facts);

  int axis() const { return axis_; }
  float epsilon() const { return epsilon_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;
  // Per row the mean, then per row one by the deviation.
  size_t reserve_bytes(const LocalSpecs& local) const override;
  // Per element of a row the sum of dY times the normalised X, then that of dY.
  size_t handed_bytes(const LocalSpecs& local) const override;

 private:
  int axis_;
  float epsilon_;
};

}  // namespace kerf::ops
