// LRN (ONNX, opset 13): every number divided by what its neighbours among the channels amount to.
//
//   X [N, C, ...]   Y = X * (bias + alpha / size * sum of X^2 over the window) ^ -beta
//
// The window of channel c is [c - floor((size - 1) / 2), c + ceil((size - 1) / 2)], as far as there
// are channels. With `channels_last` (image_format.h) X and Y are [N, ..., C]. Iterations: samples,
// ranges of channels, whose windows overlap in X, space.
#pragma once

#include "ops/image_format.h"

namespace kerf::ops {

class Lrn final : public BoundOperator {
 public:
  explicit Lrn(const NodeFacts& facts);

  ImageFormat images() const { return format_; }
  float bias() const { return bias_; }
  float beta() const { return beta_; }
  float factor() const { return alpha_ / static_cast<float>(size_); }  // of the sum of squares
  int64_t before() const { return (size_ - 1) / 2; }                   // channels of the window
  int64_t behind() const { return size_ - 1 - before(); }
  int64_t channels() const { return channels_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;

 private:
  ImageFormat format_;
  int64_t size_;
  float alpha_;
  float beta_;
  float bias_;
  int64_t channels_ = 0;
};

}  // namespace kerf::ops
