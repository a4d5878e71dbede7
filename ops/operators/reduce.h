// ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceL1, ReduceL2, ReduceLogSum,
// ReduceLogSumExp and ReduceSumSquare (ONNX, opset 18, axes as an attribute): one number for all
// indices of some axes.
//
// Attributes axes (default: all), keepdims (default 1: reduced axes stay, with one index),
// noop_with_empty_axes: without axes none is reduced. float32, with gradients; other numbers
// forward only, of which roots and logarithms are of float64. The batch is not reduced: a step's
// micro-batches would each give a result of their own; a loss is the sum over samples.
//
// Iterations: the input's axes. Sums, means and sums of absolutes or squares of float32 are partial
// where a reduced axis is divided; what is put together otherwise than by adding, or changed after
// it, needs its reduced axes whole.
#pragma once

#include "ops/image_format.h"

namespace kerf::ops {

// In the order of their names in reduce.cc.
enum class Reduction : uint8_t {
  kSum,
  kMean,
  kMax,
  kMin,
  kProd,
  kL1,
  kL2,
  kLogSum,
  kLogSumExp,
  kSumSquare,
};

class Reduce final : public BoundOperator {
 public:
  Reduce(std::string_view name, Reduction kind, const NodeFacts& facts);

  Reduction kind() const { return kind_; }
  // Of each axis of the input, whether it is reduced.
  const std::vector<bool>& reduced() const { return reduced_; }
  int64_t terms() const { return terms_; }  // of each result, over all parts

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  Reduction kind_;
  std::vector<bool> reduced_;
  int64_t terms_ = 1;
};

// The node with its image's channels last; nothing where its results' axes would lie otherwise than
// ONNX has them.
std::optional<ChannelsLast> reduction_channels_last(const NodeFacts& facts);

}  // namespace kerf::ops
