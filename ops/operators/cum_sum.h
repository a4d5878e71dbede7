// CumSum (ONNX, opset 14, axis as an attribute): sums of all elements so far along an axis.
//
// Attributes exclusive: without the element itself; reverse: from the end. Numbers of any type but
// the halves. The axis stays whole, since every sum goes on from the one before; all others divide.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class CumSum final : public BoundOperator {
 public:
  explicit CumSum(const NodeFacts& facts);

  int axis() const { return axis_; }
  bool exclusive() const { return exclusive_; }
  bool reverse() const { return reverse_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override { return {}; }

 private:
  int axis_ = 0;
  bool exclusive_;
  bool reverse_;
};

}  // namespace kerf::ops
