// Where (ONNX): X where the condition holds, else Y, all three repeated over each other.
//
//   condition bool   X, Y of one type, any   output of it
//
// Iterations: the axes of the output.
#pragma once

#include "ops/broadcast.h"

namespace kerf::ops {

class Where final : public BoundOperator {
 public:
  explicit Where(const NodeFacts& facts);

  Shape aligned(int input, const Shape& local) const { return repeated_.aligned(input, local); }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  Repeated repeated_;
};

}  // namespace kerf::ops
