// Element-wise functions of two inputs (ONNX: Add, Mul, Pow, Less, And, BitShift ...), repeated
// over each other as NumPy broadcasts. The entries are in ops/binary.h.
//
//   A, B of one type, of shapes that repeat to one; the exponent of Pow may be of another type
//   Y of A's type, or bool
//
// Iterations: the axes of Y. What lacks one of them, or repeats over it, has a gradient that is
// partial over it.
#pragma once

#include "ops/binary.h"
#include "ops/broadcast.h"

namespace kerf::ops {

class BinaryOperator final : public BoundOperator {
 public:
  struct Traits {
    const char* name;
    double flops;
    Types types;
    bool gives_bool;
    bool smooth;
    unsigned reads[2];  // of the slopes of A and B
    Choice choice;
    int first_opset;
  };

  // `entry` of kBinary.
  BinaryOperator(const NodeFacts& facts, size_t entry, const Traits& traits);

  size_t entry() const { return entry_; }
  // All of float32, and with gradients.
  bool is_trained() const;
  Shape aligned(int input, const Shape& local) const { return repeated_.aligned(input, local); }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;
  bool may_overwrite(int index) const override;

 private:
  size_t entry_;
  Traits traits_;
  Repeated repeated_;
};

}  // namespace kerf::ops
