// GatherND (ONNX, opset 13): slices of a tensor, by tuples of indices.
//
//   data [b..., d_1, ..., d_k, r...]   indices [b..., i..., k]   output [b..., i..., r...]
//
// Attribute batch_dims: how many axes are b. Any element type. Iterations: the output's axes; the
// picked axes are needed whole, since a tuple may point anywhere. The data's gradient is a
// scatter-add in ascending order, partial where i is divided.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class GatherND final : public BoundOperator {
 public:
  explicit GatherND(const NodeFacts& facts);

  int batch_axes() const { return batch_axes_; }
  // The picked extents, in order.
  const std::vector<int64_t>& picked() const { return picked_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  int batch_axes_;
  std::vector<int64_t> picked_;
};

}  // namespace kerf::ops
