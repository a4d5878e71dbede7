// Gather (ONNX, opset 13): slices of a table, by index; an embedding where the table is [V, D].
//
//   data [a..., V, b...]   indices [i...], int64 or int32   output [a..., i..., b...]
//
// Attribute axis (default 0): V's place. An index counts from the end where it is negative. Any
// element type. Iterations: the output's axes, and the vocabulary, which the output lacks: a call
// that holds some of it gives 0 for the other indices, and only float32 can be added up. The call
// that holds index 0 of it checks the indices. The table's gradient is a scatter-add in ascending
// order of rows.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class Gather final : public BoundOperator {
 public:
  explicit Gather(const NodeFacts& facts);

  int axis() const { return axis_; }
  int vocabulary() const { return static_cast<int>(space_.axes.size()) - 1; }  // iteration axis

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  int axis_;
};

}  // namespace kerf::ops
