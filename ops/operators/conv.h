// Conv (ONNX, opset 11): cross-correlation over one to three axes of space.
//
//   X [N, C, H, W]   W [O, C/group, kh, kw]   B [O], optional   Y [N, O, H', W']
//
// and so for [N, C, W] and [N, C, D, H, W]. With `channels_last` (image_format.h) X is [N, H, W, C]
// and Y [N, H', W', O].
//
// Iterations: samples, groups (if there are several), output channels of a group, input channels of
// a group (summed), the axes of space of the output. Space is divided into ranges, whose windows
// overlap in X (a halo). B is added by the call that has input channel 0.
//
// FusedConv (Kerf's own) is a convolution with what follows it, in one pass. Nothing is trained
// through it.
//
//   Y = activation((conv(X, W) + B - mean) * scale / sqrt(variance + epsilon) + shift + Z)
//
//   X [N, C, H, W]   W, B as of Conv   scale, shift, mean, variance [O], all or none   Z as Y
//   activation: "" or "Relu", which makes 0 of what is no number
//
// All but X and W are optional, and all but X and Z are kept by the model. It divides as Conv does,
// but for the channels that are summed over.
#pragma once

#include "ops/image_format.h"
#include "ops/window.h"

namespace kerf::ops {

// By this name kernels of three axes of space are found.
inline constexpr const char* kConvOfVolumes = "ConvOfVolumes";

class Conv final : public BoundOperator {
 public:
  explicit Conv(const NodeFacts& facts);

  Window window() const { return window_of(windows_); }  // of the whole
  // The window of the call that computes these iterations: its local extents, with padding only
  // where it lies at the border.
  Window local_window(const Box& iterations) const {
    return ops::local_window(windows_, iterations);
  }
  int64_t groups() const { return groups_; }
  ImageFormat images() const { return format_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override { return product_reads(*this); }

 private:
  void set_space(const Shape& image);  // X as ONNX has it

  ImageFormat format_;
  int64_t groups_;
  std::vector<AxisWindow> windows_;  // of the whole
};

class FusedConv final : public BoundOperator {
 public:
  enum Input : int { kX, kW, kB, kScale, kShift, kMean, kVariance, kZ };

  explicit FusedConv(const NodeFacts& facts);

  const Conv& conv() const { return conv_; }
  bool relu() const { return relu_; }
  bool adds() const { return has(kZ); }
  bool scales() const { return has(kScale); }
  double epsilon() const { return epsilon_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override { return {}; }
  bool may_overwrite(int input) const override { return input == kZ; }

 private:
  void check() const;

  Conv conv_;
  bool relu_;
  double epsilon_;
};

}  // namespace kerf::ops
