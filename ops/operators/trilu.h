// Trilu (ONNX, opset 14, k as an attribute): of matrices in stacks one side of a diagonal, zeros on
// the other. EyeLike (opset 22): a matrix of the input's shape with ones on a diagonal.
//
// Diagonal k is k columns to the right of the main one. Attribute upper (default 1): what is on the
// diagonal and right of it, else on it and left of it. Attribute dtype of EyeLike: an ONNX type,
// else the input's. Rows and columns are not the batch. Iterations: all axes, which divide.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class Diagonal : public BoundOperator {
 public:
  int64_t k() const { return k_; }
  int rows() const { return shape(0).rank() - 2; }  // axis

  BackwardReads backward_reads() const override { return {}; }

 protected:
  Diagonal(std::string_view name, const NodeFacts& facts, int least_rank, int most_rank);

 private:
  int64_t k_;
};

class Trilu final : public Diagonal {
 public:
  explicit Trilu(const NodeFacts& facts);
  bool upper() const { return upper_; }
  Cost cost(const LocalSpecs& local) const override;
  bool may_overwrite(int) const override { return true; }

 private:
  bool upper_;
};

class EyeLike final : public Diagonal {
 public:
  explicit EyeLike(const NodeFacts& facts);
  Cost cost(const LocalSpecs& local) const override;
};

}  // namespace kerf::ops
