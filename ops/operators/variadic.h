// Element-wise functions of any number of inputs; the entries are in ops/variadic.h.
//
//   data_0, data_1 ... of one type, of shapes that repeat to one   Y of it
//
// Iterations: the axes of Y. Where several inputs are the largest they share the gradient equally.
#pragma once

#include "ops/variadic.h"

namespace kerf::ops {

class VariadicOperator final : public BoundOperator {
 public:
  VariadicOperator(const NodeFacts& facts, const char* name, Types types, Sharing share);

  Shape aligned(int input, const Shape& local) const { return repeated_.aligned(input, local); }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;
  // The output is written while later inputs are still read: only the first may be below it.
  bool may_overwrite(int index) const override;

 private:
  Sharing share_;
  Repeated repeated_;
};

}  // namespace kerf::ops
