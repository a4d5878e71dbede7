// Element-wise functions of one input: Y = f(X), of any shape. The entries are in
// ops/elementwise.h.
#pragma once

#include "ops/elementwise.h"

namespace kerf::ops {

class ElementwiseOperator final : public BoundOperator {
 public:
  struct Traits {
    const char* name;
    double flops;
    Types types;
    bool asks;  // and gives bool
    bool derived;
    DerivativeOf of;
    const Parameter* parameters;  // kElementParameters
    Choice choice;
    int first_opset;
  };

  // `entry` of kElementwise.
  ElementwiseOperator(const NodeFacts& facts, size_t entry, const Traits& traits);

  size_t entry() const { return entry_; }
  const Parameters<double>& parameters() const { return parameters_; }
  // Of float32, and with a gradient.
  bool is_trained() const;

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;
  bool may_overwrite(int) const override;

 private:
  size_t entry_;
  Traits traits_;
  Parameters<double> parameters_;
};

}  // namespace kerf::ops
