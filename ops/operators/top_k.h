// TopK (ONNX, opset 24, k as an attribute): the k greatest, or smallest, numbers along an axis, in
// order, and where they are.
//
//   X [..., d, ...]   Values [..., k, ...]   Indices [..., k, ...], int64
//
// Attributes axis (default -1), largest (default 1), sorted (always). Of equals the first comes
// first. The axis stays whole, all others divide. Values have a gradient, which goes where they
// came from.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class TopK final : public BoundOperator {
 public:
  explicit TopK(const NodeFacts& facts);

  int axis() const { return axis_; }
  bool largest() const { return largest_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  int axis_;
  bool largest_;
};

}  // namespace kerf::ops
