// GroupNormalization (ONNX, opset 21) and InstanceNormalization (opset 6): the numbers of some
// channels of a sample brought to mean 0 and variance 1, then every channel scaled.
//
//   X [N, C, ...]   scale, bias [C]   Y [N, C, ...]
//
// A group is C / num_groups neighbouring channels; an instance is one. Iterations: samples, groups,
// channels of a group (where there are several), space; the last two stay whole. I hands W the sums
// over each channel, so that W reads nothing else.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

class GroupNormalization final : public BoundOperator {
 public:
  GroupNormalization(std::string_view name, bool of_instances, const NodeFacts& facts);

  float epsilon() const { return epsilon_; }
  int64_t group_channels() const { return group_channels_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;
  // Per sample and group the mean, then likewise one by the deviation.
  size_t reserve_bytes(const LocalSpecs& local) const override;
  // Per channel the sum of dY times the normalised X, then likewise that of dY.
  size_t handed_bytes(const LocalSpecs& local) const override;

 private:
  float epsilon_;
  int64_t group_channels_ = 1;
};

}  // namespace kerf::ops
