// Concat (ONNX, opset 13): tensors put one after another along an axis.
//
//   inputs [..., e_i, ...]   concat_result [..., sum of e_i, ...]
//
// Iterations: the output's axes; an input is a stretch of the attribute's `axis`, so a call may
// need some of one input, all of another and nothing of a third. Not along the batch.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class Concat final : public BoundOperator {
 public:
  explicit Concat(const NodeFacts& facts);

  int axis() const { return axis_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  int axis_;
};

}  // namespace kerf::ops
