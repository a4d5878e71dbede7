// RNN, GRU and LSTM (ONNX, opset 14): one cell, carried over the steps of a sequence.
//
//   X [T, N, I]   W [D, G H, I]   R [D, G H, H]
//   optional: B [D, 2 G H]   sequence_lens [N]   initial_h [D, N, H]   of the LSTM also
//             initial_c [D, N, H], P [D, 3 H]
//   Y [T, D, N, H]   Y_h [D, N, H]   of the LSTM also Y_c [D, N, H]
//
//   RNN    G = 1   h = f(W x + R h + b)
//   GRU    G = 3   z, r = f(W x + R h + b)   n = g(W x + R (r * h) + b), or with
//                  linear_before_reset g(W x + b_W + r * (R h + b_R))     h = (1 - z) * n + z * h
//   LSTM   G = 4   i, o, f = f(W x + R h + b)   c = f * c + i * g(W x + R h + b)   h = o * h(c)
//
// with the blocks of G H in this order (z, r, n; i, o, f, c). Attributes: hidden_size H; direction
// forward, reverse or bidirectional (D = 2); layout 1 has samples first: X [N, T, I], Y
// [N, T, D, H], states [N, D, H].
//
// Answers only, no gradients: sequence_lens, P (peepholes), clip, input_forget, and activations
// other than the default ones and, of the RNN, Relu and Sigmoid.
//
// Iterations: samples, directions, time, hidden units; the last two stay whole. A rewrite into a
// RecurrentCell a step divides hidden units: where it can, their axis is one of features. Y is read
// again for W (by the GRU for I too); the gates are reserved, and I hands W their gradients.
#pragma once

#include <array>

#include "ops/operator.h"

namespace kerf::ops {

// What a gate does to its argument.
struct GateFunction {
  enum class Kind : uint8_t {
    kSigmoid,
    kTanh,
    kRelu,
    kAffine,
    kLeakyRelu,
    kThresholdedRelu,
    kScaledTanh,
    kHardSigmoid,
    kElu,
    kSoftsign,
    kSoftplus,
  };
  Kind kind = Kind::kTanh;
  float alpha = 0;
  float beta = 0;
  float operator()(float x) const;
};

// Steps that a rewrite makes nodes of.
inline constexpr int64_t kMostUnrolled = 2048;

class Recurrent final : public BoundOperator {
 public:
  enum class Kind : uint8_t { kRnn, kGru, kLstm };
  // Inputs by number, of all three.
  enum Input : int { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kP };
  Recurrent(Kind kind, const NodeFacts& facts);

  Kind kind() const { return kind_; }
  int64_t hidden() const { return hidden_; }
  int64_t gates() const { return kind_ == Kind::kRnn ? 1 : kind_ == Kind::kGru ? 3 : 4; }
  bool samples_first() const { return samples_first_; }
  bool linear_before_reset() const { return linear_before_reset_; }
  bool input_forget() const { return input_forget_; }
  float clip() const { return clip_; }  // 0: none
  // Whether direction `direction` runs from the last step to the first.
  bool runs_back(int64_t direction) const { return reverse_ || direction == 1; }
  // f, g and h of a direction.
  const std::array<GateFunction, 3>& functions(int64_t direction) const {
    return functions_[static_cast<size_t>(direction)];
  }
  // Whether the cell is the one that has gradients.
  bool usual() const { return unusual_.empty(); }
  // Of a row of gates, what is kept beside them: the LSTM's cell, R h + b_R of a GRU's n.
  bool keeps_more() const { return kind_ == Kind::kLstm || linear_before_reset_; }
  int directions_axis() const { return 1; }  // iteration axis

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;
  // Per direction, step and sample the gates; then likewise what is kept beside them.
  size_t reserve_bytes(const LocalSpecs& local) const override;
  // Per direction, step and sample the gradients of the gates' arguments; then likewise, with
  // linear_before_reset, that of R h + b_R of n.
  size_t handed_bytes(const LocalSpecs& local) const override;

 private:
  bool handed_wanted() const;
  void read_functions(const NodeFacts& facts, int64_t directions);
  void find_unusual();
  void refuse_gradients() const;
  void check_shapes(int64_t directions) const;
  // Why its steps are no nodes RecurrentCell; empty: they can be.
  std::string why_not_unrolled(int64_t steps) const;
  void set_space();
  double cells(const LocalSpecs& local) const;

  Kind kind_;
  int64_t hidden_ = 0;
  bool samples_first_ = false;
  bool reverse_ = false;
  bool linear_before_reset_ = false;
  bool input_forget_ = false;
  float clip_ = 0;
  std::array<std::array<GateFunction, 3>, 2> functions_{};
  std::string unusual_;  // what has no gradients
};

}  // namespace kerf::ops
