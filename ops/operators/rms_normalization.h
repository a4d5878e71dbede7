// RMSNormalization (ONNX, opset 23): every row divided by the root of its mean square, then scaled.
//
//   X [a..., b...]   scale [b...]   Y [a..., b...]
//
// A row is all axes from attribute `axis` (default -1) on; epsilon defaults to 1e-5. Iterations:
// the axes of X; those of a row stay whole. I hands W the sums over its rows.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class RmsNormalization final : public BoundOperator {
 public:
  explicit RmsNormalization(const NodeFacts& facts);

  float epsilon() const { return epsilon_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;
  // Per row one by the root.
  size_t reserve_bytes(const LocalSpecs& local) const override;
  // Per element of a row the sum of dY times the normalised X.
  size_t handed_bytes(const LocalSpecs& local) const override;

 private:
  float epsilon_;
};

}  // namespace kerf::ops
