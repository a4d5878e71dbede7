// SegmentSoftmax (Kerf's own): softmax, or its logarithm, along an axis that is divided.
//
//   X [..., C, ...]   maximum, log_sum [..., S, ...]   Y [..., C, ...]
//
//   Y = exp(X - l), or X - l with attribute logarithm 1; l = log(sum over s of exp(maximum_s +
//   log_sum_s))
//
// The last two inputs are SegmentLogSumExp's, of all segments of the axis (attribute `axis`,
// default -1). Iterations: the axes of X.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class SegmentSoftmax final : public BoundOperator {
 public:
  explicit SegmentSoftmax(const NodeFacts& facts);

  int axis() const { return axis_; }
  bool logarithm() const { return logarithm_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  int axis_;
  bool logarithm_;
};

}  // namespace kerf::ops
