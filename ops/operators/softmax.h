// What is taken of the numbers along one axis (ONNX, opset 13; attribute `axis`, default the last):
//
//   Softmax      Y = exp(X) / sum of exp(X)
//   LogSoftmax   its logarithm
//   Hardmax      1 for the first of the largest, else 0; nothing flows back
//
// Every index along it needs all others; other axes divide at will.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

enum class SoftmaxKind : uint8_t { kSoftmax, kLogSoftmax, kHardmax };

class Softmax final : public BoundOperator {
 public:
  Softmax(const NodeFacts& facts, const char* name, SoftmaxKind kind);

  SoftmaxKind kind() const { return kind_; }
  int axis() const { return axis_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  SoftmaxKind kind_;
  int axis_ = 0;
};

}  // namespace kerf::ops
