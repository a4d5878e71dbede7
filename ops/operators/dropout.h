// Dropout (ONNX, opset 13): Y = X where a random number is at least `ratio`, scaled by 1 / (1 -
// ratio), else 0; in evaluation Y = X.
//
//   data X of any shape
//   ratio, optional: one number; else the attribute `ratio`, or 0.5
//   mask, where it is wanted: bool, false where an element was dropped
//
// Whether it drops is the run's to say, training or not: an attribute `training_mode` is kept for
// who reads the file next. An attribute `seed` is mixed into the run's.
//
// The number of an element is that of its place in the global tensor of the micro-batch, so every
// division drops the same elements. The mask is drawn again for the gradient instead of being kept.
#pragma once

#include "ops/operator.h"
#include "ops/random.h"

namespace kerf::ops {

class Dropout final : public BoundOperator {
 public:
  explicit Dropout(const NodeFacts& facts);

  double ratio() const { return ratio_; }  // where it is no input
  // The node's own numbers of a run.
  RandomKey key(RandomKey of_run) const {
    of_run.seed ^= seed_;
    return of_run;
  }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override { return {}; }
  // The ratio, as a double.
  size_t reserve_bytes(const LocalSpecs&) const override { return sizeof(double); }

 private:
  double ratio_;
  uint64_t seed_ = 0;
};

// Throws Error{kUsage} unless it is in [0, 1).
void check_dropout_ratio(double ratio);

}  // namespace kerf::ops
