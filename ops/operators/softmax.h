// Softmax (ONNX, opset 13): Y = exp(X) / sum of exp(X) along one axis (attribute `axis`, default
// the last). Every index along it needs all others; other axes divide at will.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class Softmax final : public BoundOperator {
 public:
  explicit Softmax(const NodeFacts& facts);

  int axis() const { return axis_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  int axis_ = 0;
};

}  // namespace kerf::ops
