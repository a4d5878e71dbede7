// ChannelSum, CenteredSquareSum and ChannelStatistics (Kerf's own): the statistics of batch
// normalisation over a divided batch or space, in two rounds of sums of which the second is
// centred.
//
//   X --ChannelSum--> totals [2, C]     per channel the sum, and the number of elements
//   X, totals --CenteredSquareSum--> squares [C]     sum of (x - mean)^2
//   totals, squares (, input_mean, input_var) --ChannelStatistics--> mean, variance [C]
//   X, scale, B, mean, variance --BatchNormalization, training_mode 0--> Y
//
// totals and squares lack samples and space, over which they are partial sums; the numbers travel
// with the sums because shares and micro-batches differ in size. One round of sums of x and x^2
// would cancel where the mean is large (Chan, Golub, LeVeque 1983, "Algorithms for computing the
// sample variance"). Beyond 2^24 elements their number is rounded to a part in 2^24, as the sum is
// that it divides. ChannelStatistics carries the states: in evaluation its outputs are they.
#pragma once

#include "ops/image_format.h"

namespace kerf::ops {

class ChannelSum final : public BoundOperator {
 public:
  explicit ChannelSum(const NodeFacts& facts);

  ImageFormat images() const { return format_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override { return {}; }

 private:
  ImageFormat format_;
};

class CenteredSquareSum final : public BoundOperator {
 public:
  explicit CenteredSquareSum(const NodeFacts& facts);

  ImageFormat images() const { return format_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  ImageFormat format_;
};

class ChannelStatistics final : public BoundOperator {
 public:
  explicit ChannelStatistics(const NodeFacts& facts);

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;
  std::vector<StateUpdate> state_updates() const override;

 private:
  float momentum_;
};

}  // namespace kerf::ops
