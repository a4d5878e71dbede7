// OneHot (ONNX, opset 28; depth and values as attributes): a row of `depth` for every index, which
// has the second of the values in the index's place and the first elsewhere.
//
//   indices [i...], of any number type   output [i..., depth], or with depth at attribute `axis`
//
// An index counts from the end where it is negative; one out of range has no place. The output's
// type is that of `values`. No gradient. Iterations: the output's axes, all of which divide.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class OneHot final : public BoundOperator {
 public:
  explicit OneHot(const NodeFacts& facts);

  int axis() const { return axis_; }  // of the output
  // Two elements of the output's type: off and on.
  const std::string& values() const { return values_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override { return {}; }

 private:
  int axis_ = 0;
  std::string values_;
};

}  // namespace kerf::ops
