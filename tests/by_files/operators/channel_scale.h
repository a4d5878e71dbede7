// ChannelScale: Y = X * S, one trained factor for each index of an axis, the channels. No opset has
// it.
//
//   X [N, C, ...]   S [C]   Y [N, C, ...]   attribute axis: that of C, 1 unless said
//
// Iterations: one axis for each of X's, of which S has the channels alone. So the gradient of S is
// partial wherever samples or space are divided.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class ChannelScale final : public BoundOperator {
 public:
  explicit ChannelScale(const NodeFacts& facts);

  int axis() const { return axis_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override { return product_reads(*this); }
  bool may_overwrite(int input) const override { return input == 0; }

 private:
  int axis_;
};

}  // namespace kerf::ops
