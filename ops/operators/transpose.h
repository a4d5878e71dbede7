// Transpose (ONNX, opset 13): a copy with its axes in another order.
//
// Attribute perm: axis j of the output is axis perm[j] of the input; without it the order is
// reversed. Any element type. Iterations: the input's axes, all of which divide.
#pragma once

#include "ops/operators/rearranged.h"

namespace kerf::ops {

class Transpose final : public Rearranged {
 public:
  explicit Transpose(const NodeFacts& facts);

  const std::vector<int>& perm() const { return perm_; }

 private:
  std::vector<int> perm_;
};

}  // namespace kerf::ops
