// RecurrentCell (Kerf's own): one step of one direction of an RNN, GRU or LSTM (recurrent.h), for
// some of its hidden units.
//
//   gates [1, N, 1, G H]   what the inputs of this step give (RecurrentInputs)
//   R [D, G H, H]   B [D, 2 G H], optional
//   h, c: the states before, optional (zeros); c of the LSTM only. Of a cell [1, 1, N, H], or of a
//   sequence [D, N, H]
//   h' [1, 1, N, H]   of the LSTM also c' [1, 1, N, H]
//
// Attributes: cell (RNN, GRU, LSTM), direction (0 or 1: which of D it is), layout (1: samples
// first, gates [N, 1, 1, G H], states [N, 1, 1, H] or [N, D, H]), activation (of the RNN: Tanh,
// Relu, Sigmoid). A GRU's is that of linear_before_reset.
//
// Iterations: samples, the direction, the halves of B, gates, hidden units. The last divide: a call
// reads all of h and its own units of c; of the rows of R those of its units' gates.
#pragma once

#include "ops/operators/recurrent.h"

namespace kerf::ops {

class RecurrentCell final : public BoundOperator {
 public:
  enum Input : int { kGates, kR, kB, kH, kC };
  explicit RecurrentCell(const NodeFacts& facts);

  Recurrent::Kind kind() const { return kind_; }
  GateFunction::Kind activation() const { return activation_; }  // of the RNN
  int64_t hidden() const { return hidden_; }
  int64_t gates() const { return gates_; }
  int units_axis() const { return kHidden; }  // iteration axis

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;
  // By sample the gates; of a GRU then likewise R h + b of n.
  size_t reserve_bytes(const LocalSpecs& local) const override;
  // By sample the gradients of the gates' arguments; of a GRU then likewise those of R h + b.
  size_t handed_bytes(const LocalSpecs& local) const override;

 private:
  enum Axis : int { kSamples, kDirection, kHalves, kBlocks, kHidden };
  void check_operands(bool samples_first, int64_t direction) const;
  void set_space(bool samples_first, int64_t direction);

  Recurrent::Kind kind_;
  int64_t gates_;
  int64_t hidden_ = 0;
  GateFunction::Kind activation_ = GateFunction::Kind::kTanh;
};

}  // namespace kerf::ops
