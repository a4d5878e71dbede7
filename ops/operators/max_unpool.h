// MaxUnpool (ONNX, opset 11): every number goes back to where MaxPool took it from, among zeros.
//
//   X [N, C, ...]   I [N, C, ...], MaxPool's Indices   Y [N, C, ...]
//
// Indices count the elements of what MaxPool had: along each axis of space
// (n - 1) * stride - pads + kernel. With `output_shape`, an input of ONNX, Y may be larger than
// that; the numbers lie at its begin. (ONNX says in words that pads are ignored beside it, and
// counts as is done here.) It is not less: indices would have no place. Where an index occurs
// again, the last number stays and has the gradient. Indices are of all of X, so that nothing is
// divided.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class MaxUnpool final : public BoundOperator {
 public:
  explicit MaxUnpool(const NodeFacts& facts);

  // What the indices count, but for its samples.
  const Shape& pooled() const { return pooled_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  Shape pooled_;
};

}  // namespace kerf::ops
