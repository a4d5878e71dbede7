// LSTM (ONNX, opset 14): long short-term memory over a sequence.
//
//   X [T, N, I]   W [D, 4H, I]   R [D, 4H, H]
//   optional: B [D, 8H]   initial_h, initial_c [D, N, H]
//   Y [T, D, N, H]   Y_h, Y_c [D, N, H]
//
//   i, o, f = sigmoid(W x + R h + b), g = tanh(W x + R h + b)   the blocks of 4H, in this order
//   c = f * c + i * g,   h = o * tanh(c)
//
// Attributes: hidden_size H; direction forward, reverse or bidirectional (D = 2); layout 1 has
// samples first: X [N, T, I], Y [N, T, D, H], states [N, D, H]. Activations are the default ones;
// sequence_lens, P, clip and input_forget are refused. Iterations: samples, directions, time,
// hidden units; the last two stay whole. Y is read again for W; the gates are reserved, and I hands
// W their gradients.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class Lstm final : public BoundOperator {
 public:
  explicit Lstm(const NodeFacts& facts);

  int64_t hidden() const { return hidden_; }
  bool samples_first() const { return samples_first_; }
  // Whether direction `direction` runs from the last step to the first.
  bool runs_back(int64_t direction) const { return reverse_ || direction == 1; }
  int directions_axis() const { return 1; }  // iteration axis

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;
  // Per direction, step and sample the four gates, then the cells.
  size_t reserve_bytes(const LocalSpecs& local) const override;
  // Per direction, step and sample the gradients of the four gates' arguments.
  size_t handed_bytes(const LocalSpecs& local) const override;

 private:
  bool handed_wanted() const;
  void refuse(const NodeFacts& facts) const;
  void check_shapes(int64_t directions) const;
  void set_space();

  int64_t hidden_ = 0;
  bool samples_first_ = false;
  bool reverse_ = false;
};

}  // namespace kerf::ops
