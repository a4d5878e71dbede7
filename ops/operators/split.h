// Split (ONNX, opset 18): consecutive stretches of one axis, each an output.
//
//   input [..., E, ...]   outputs [..., e_i, ...], the sum of e_i is E
//
// Attributes: axis (default 0), split: the extents, here an attribute; without it the outputs are
// equal parts, of which the last may be smaller where num_outputs says their number. Any element
// type. Iterations: the input's axes; an output is a stretch of the divided axis, so a call
// may hold some of one output, all of another and nothing of a third. The batch is not split.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class Split final : public BoundOperator {
 public:
  explicit Split(const NodeFacts& facts);

  int axis() const { return axis_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  int axis_;
};

}  // namespace kerf::ops
