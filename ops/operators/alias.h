// Operators whose output is their input read with another shape: no copy, no arithmetic, any
// element type.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class Alias final : public BoundOperator {
 public:
  // `space` has one input and one output.
  Alias(std::string_view name, const NodeFacts& facts, const Shape& to, IterationSpace space)
      : BoundOperator(name, facts) {
    outputs_ = {{input(0).spec.dtype, to}};
    space_ = std::move(space);
  }
  Cost cost(const LocalSpecs&) const override { return {}; }
  BackwardReads backward_reads() const override { return {}; }
  bool aliases() const override { return true; }
};

}  // namespace kerf::ops
