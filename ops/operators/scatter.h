// ScatterElements and ScatterND (ONNX, opset 18): a copy of the data with updates put where indices
// say, in their order.
//
//   ScatterElements  indices, updates [i...], of as many axes as the data, none longer:
//                    output[p with indices[p] in place of axis] is updated by updates[p]
//   ScatterND        indices [i..., k], updates [i..., r...], data [d_1, ..., d_k, r...]:
//                    output[indices[i...]] is updated by updates[i...]
//
// Attribute reduction: none (the last one stays), add, mul, max or min. Gradients of none and add.
// Iterations: the data's axes, all of which divide: a call looks at all indices for those that
// point into its part, so the gradient of updates is partial over the axes that they point along.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

enum class ScatterRule : uint8_t { kNone, kAdd, kMul, kMax, kMin };

class Scatter : public BoundOperator {
 public:
  ScatterRule rule() const { return rule_; }
  // The data's axes along which indices point, in the order of a tuple.
  const std::vector<int>& targets() const { return targets_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;
  bool may_overwrite(int index) const override { return index == 0; }

 protected:
  Scatter(std::string_view name, const NodeFacts& facts);

  std::vector<int> targets_;

 private:
  ScatterRule rule_;
};

class ScatterElements final : public Scatter {
 public:
  explicit ScatterElements(const NodeFacts& facts);
  int axis() const { return targets_[0]; }
};

class ScatterND final : public Scatter {
 public:
  explicit ScatterND(const NodeFacts& facts);
};

}  // namespace kerf::ops
