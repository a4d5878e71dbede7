// RowSum, RowSquareSum and RowNormalization (Kerf's own): layer normalisation over divided
// features, in two rounds of sums of which the second is centred; without sums, that of squares
// alone (RMSNormalization).
//
//   X --RowSum--> sums [a..., 1...]                        of a row
//   X, sums --RowSquareSum--> squares [a..., 1...]         of X - mean; without sums, of X
//   X, Scale, squares, B, sums --RowNormalization--> Y     (X - mean) / deviation * Scale + B
//
// X is [a..., b...]; a row is all axes from attribute `axis` (default -1) on, Scale and B are
// [b...], B and sums optional. sums and squares lack the axes of a row, over which they are partial
// sums; what they are divided by is the length of the whole row. Iterations: the axes of X.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

// Of RowSum and RowSquareSum.
class RowSums final : public BoundOperator {
 public:
  RowSums(const char* name, const NodeFacts& facts);

  bool centred() const { return has(1); }
  bool squares() const { return squares_; }
  int64_t length() const { return length_; }  // of a whole row

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  bool squares_;
  int64_t length_ = 0;
};

class RowNormalization final : public BoundOperator {
 public:
  enum Input : int { kX, kScale, kSquares, kB, kSums };
  explicit RowNormalization(const NodeFacts& facts);

  float epsilon() const { return epsilon_; }
  int64_t length() const { return length_; }  // of a whole row

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;
  // Per element of a row the sum of dY times the normalised X, then that of dY.
  size_t handed_bytes(const LocalSpecs& local) const override;

 private:
  void check(int axis) const;

  float epsilon_;
  int64_t length_ = 0;
};

}  // namespace kerf::ops
