// ConvTranspose (ONNX, opset 11): what a convolution does to its input's gradient, over one to
// three axes of space.
//
//   X [N, C, H, W]   W [C, M/group, kh, kw]   B [M], optional   Y [N, M, H', W']
//
//   H' = stride * (H - 1) + output_padding + (kh - 1) * dilation + 1 - pads, or output_shape
//
// Its mirror is the Conv from Y to X with the same weights. With `channels_last` (image_format.h) X
// is [N, H, W, C]. Iterations: samples, groups (if there are several), outputs of a group, inputs
// of a group (summed); space stays whole, for windows overlap in Y. B is added by the call that has
// input channel 0.
#pragma once

#include "ops/image_format.h"
#include "ops/window.h"

namespace kerf::ops {

class ConvTranspose final : public BoundOperator {
 public:
  explicit ConvTranspose(const NodeFacts& facts);

  // Of the mirror: its input is Y.
  Window window() const { return window_of(windows_); }
  int64_t groups() const { return groups_; }
  ImageFormat images() const { return format_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override { return product_reads(*this); }

 private:
  void set_space(const Shape& image);  // X as ONNX has it

  ImageFormat format_;
  int64_t groups_;
  std::vector<AxisWindow> windows_;
};

}  // namespace kerf::ops
