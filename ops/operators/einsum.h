// Einsum (ONNX, opset 28) of one or two operands: sums of products along named axes.
//
//   "bhqd,bhkd->bhqk"   every letter is an axis; those that the output lacks are summed
//   "...ij,jk"          `...` stands for any further axes, which the output has too; without `->`
//                       it has the letters that stand once, in the alphabet's order, behind them
//
// An axis of one index is repeated along its letter. float32. A letter twice in one operand is its
// diagonal. Iterations: the letters, Shape::kMaxRank at most, those of the output first; all divide
// but a diagonal's. The batch is not summed.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class Einsum final : public BoundOperator {
 public:
  explicit Einsum(const NodeFacts& facts);

  // Of every axis of an operand the iteration axis that it is; -1 where it is repeated.
  const std::vector<int>& input_letters(int input) const {
    return letters_[static_cast<size_t>(input)];
  }
  const std::vector<int>& output_letters() const { return letters_.back(); }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  std::vector<std::vector<int>> letters_;  // of the inputs, then of the output
};

}  // namespace kerf::ops
