// Dropout (ONNX, opset 13): Y = X where a random number is at least `ratio`, scaled by 1 / (1 -
// ratio), else 0; in evaluation Y = X.
//
//   data X of any shape
//   ratio, optional: one number; else the attribute `ratio` (opset 10), or 0.5
//
// The number of an element is that of its place in the global tensor of the micro-batch, so every
// division drops the same elements. The mask is drawn again for the gradient instead of being kept.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class Dropout final : public BoundOperator {
 public:
  explicit Dropout(const NodeFacts& facts);

  double ratio() const { return ratio_; }  // where it is no input

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override { return {}; }
  // The ratio, as a double.
  size_t reserve_bytes(const LocalSpecs&) const override { return sizeof(double); }

 private:
  double ratio_;
};

// Throws Error{kUsage} unless it is in [0, 1).
void check_dropout_ratio(double ratio);

}  // namespace kerf::ops
