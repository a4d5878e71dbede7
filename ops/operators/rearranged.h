// Operators of one input whose output has the input's elements in another order, some of them
// several times: no arithmetic, any element type. Where each goes follows from the iterations, of
// which every operand axis is one or a product.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class Rearranged : public BoundOperator {
 public:
  // `space` has one input and one output, and the output has all of its axes.
  Rearranged(std::string_view name, const NodeFacts& facts, const Shape& to, IterationSpace space)
      : BoundOperator(name, facts) {
    outputs_ = {{input(0).spec.dtype, to}};
    space_ = std::move(space);
  }

  Cost cost(const LocalSpecs& local) const override {
    const double x = static_cast<double>(local.inputs[0].shape.elements());
    const double y = static_cast<double>(local.outputs[0].shape.elements());
    const double bytes = (x + y) * static_cast<double>(size_of(input(0).spec.dtype));
    const bool weights = input(0).in_weight_gradient();
    const double sums = shape(0).elements_per_sample() == outputs_[0].shape.elements_per_sample() &&
                                shape(0).batched() == outputs_[0].shape.batched()
                            ? 0
                            : y;  // of what is repeated
    return {0,     weights ? 0 : sums,  weights ? sums : 0,
            bytes, weights ? 0 : bytes, weights ? bytes : 0};
  }
  BackwardReads backward_reads() const override { return {}; }

 protected:
  Rearranged(std::string_view name, const NodeFacts& facts) : BoundOperator(name, facts) {}
};

}  // namespace kerf::ops
