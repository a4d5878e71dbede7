// ReverseSequence (ONNX, opset 28): of every sample the first so many steps in reverse.
//
//   input [T, N, r...] or [N, T, r...]   sequence_lens [N], int64
//
// Attributes time_axis (default 0) and batch_axis (default 1). Any element type. Iterations: the
// input's axes; time stays whole.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class ReverseSequence final : public BoundOperator {
 public:
  explicit ReverseSequence(const NodeFacts& facts);

  int time_axis() const { return time_axis_; }  // 0 or 1; the other is the samples'

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  int time_axis_;
};

}  // namespace kerf::ops
