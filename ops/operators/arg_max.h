// ArgMax and ArgMin (ONNX, opset 13): where along an axis the greatest, or the smallest, number is.
//
// Attributes axis (default 0), keepdims (default 1), select_last_index: of equals the last instead
// of the first. The output is int64; no gradient. The axis stays whole, all others divide.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class ArgMax final : public BoundOperator {
 public:
  ArgMax(std::string_view name, bool largest, const NodeFacts& facts);

  int axis() const { return axis_; }
  bool largest() const { return largest_; }
  bool last() const { return last_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override { return {}; }

 private:
  int axis_;
  bool largest_;
  bool last_;
};

}  // namespace kerf::ops
