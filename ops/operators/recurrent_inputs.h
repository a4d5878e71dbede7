// RecurrentInputs (Kerf's own): what the inputs of every step give a direction of an RNN, GRU or
// LSTM (recurrent.h), one product for all of them.
//
//   X [T, N, I]   W [D, G H, I]   outputs: of each step [1, N, 1, G H] = X W^T
//
// Attributes: gates (G), direction (0 or 1: which of D it is), layout (1: samples first, X
// [N, T, I], outputs [N, 1, 1, G H]). Iterations: samples, time, the direction, gates, hidden
// units, inputs; of the rows of W a call has those of its units' gates.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class RecurrentInputs final : public BoundOperator {
 public:
  explicit RecurrentInputs(const NodeFacts& facts);

  bool samples_first() const { return samples_first_; }
  int time_axis() const { return kTime; }  // iteration axis
  int64_t steps() const { return space_.axes[kTime].extent; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override { return product_reads(*this); }

 private:
  enum Axis : int { kSamples, kTime, kDirection, kBlocks, kHidden, kInner };
  bool samples_first_;
};

}  // namespace kerf::ops
