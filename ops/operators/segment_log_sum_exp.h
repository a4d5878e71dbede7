// SegmentLogSumExp (Kerf's own): log-sum-exp over slices of the classes, for a cross-entropy whose
// vocabulary is divided, or a softmax (SegmentSoftmax).
//
//   scores [N, C, ...]   maximum, log_sum [N, S, ...]
//
// Classes are along attribute `axis` (default 1). Attribute boundaries: 0, ascending, C; segment s is [boundaries[s], boundaries[s + 1]). Its
// log-sum-exp is maximum + log_sum, kept apart because float32 has no room for their sum: at scores
// near 1e4 it rounds to 5e-4. LogLoss puts the segments together. Iterations: samples, segments,
// the other axes; nothing is partial.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class SegmentLogSumExp final : public BoundOperator {
 public:
  explicit SegmentLogSumExp(const NodeFacts& facts);

  int axis() const { return axis_; }
  const std::vector<int64_t>& boundaries() const { return boundaries_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  int axis_;
  std::vector<int64_t> boundaries_;
};

}  // namespace kerf::ops
