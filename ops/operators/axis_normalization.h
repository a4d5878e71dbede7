// LpNormalization (ONNX, opset 22) and MeanVarianceNormalization (opset 13): numbers of some axes
// brought to norm 1, or to mean 0 and variance 1.
//
//   LpNormalization             Y = X / norm p of X along attribute `axis` (default -1), p 1 or 2
//   MeanVarianceNormalization   Y = (X - mean) / (deviation + 1e-9) over attribute `axes` (default
//                               0, 2 and 3)
//
// Where all is 0, so is Y. Iterations: the axes of X; those normalised over stay whole. The batch
// is none of them: a step has several micro-batches.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class AxisNormalization final : public BoundOperator {
 public:
  enum class Kind : uint8_t { kAbsolute, kEuclidean, kMeanVariance };
  AxisNormalization(Kind kind, const NodeFacts& facts);

  Kind kind() const { return kind_; }
  // By axis of X.
  const std::vector<bool>& normalised() const { return normalised_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  Kind kind_;
  std::vector<bool> normalised_;
};

}  // namespace kerf::ops
