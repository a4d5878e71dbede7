// What Flatten and Reshape have in common: output 0 is input 0 read with another shape, without a
// copy and without arithmetic.
//
// A wanted box of the output becomes the box of the input that holds the same elements; where there
// is none (half a channel) it is refused.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class AliasOperator : public Operator {
 public:
  int required_inputs() const override { return 1; }
  bool follows_input() const override { return true; }
  bool aliases() const override { return true; }
  Keeps keeps() const override { return {}; }
  SplitRule split(const Attributes&, std::span<const ValueSpec> inputs, const ValueSpec& output,
                  const Box& wanted) const override;
  Cost cost(const Attributes&, std::span<const ValueSpec>,
            std::span<const ValueSpec>) const override {
    return {};
  }
  std::unique_ptr<Kernel> make_kernel(const Attributes&, runtime::Device& device) const override;
};

}  // namespace kerf::ops
