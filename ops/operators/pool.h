// MaxPool (ONNX, opset 12), AveragePool (opset 19) and LpPool (opset 18): windows over one to three
// axes of space, channel by channel.
//
//   X [N, C, H, W]   Y [N, C, H', W']     or channels last (image_format.h), and so for other axes
//
// Iterations: samples, channels, and ranges of the axes of space, whose windows may overlap in X.
// MaxPool takes the first of equal entries, in row-major order of the window. Its second output,
// Indices, says where in all of X that was, with storage_order 1 as if the axes of space were
// reversed; then nothing is divided.
#pragma once

#include "ops/image_format.h"
#include "ops/window.h"

namespace kerf::ops {

class Pool final : public BoundOperator {
 public:
  enum class Kind : uint8_t { kMax, kAverage, kLp };
  Pool(Kind kind, const NodeFacts& facts);

  // Of the call that computes these iterations; see Conv. What counts as padding for an average is
  // asked of the whole window.
  Window local_window(const Box& iterations) const {
    return ops::local_window(windows_, iterations);
  }
  // The first of the windows that these iterations compute, along rows and columns.
  Extent2 first_window(const Box& iterations) const;
  Window window() const { return window_of(windows_); }
  const std::vector<AxisWindow>& windows() const { return windows_; }
  Kind kind() const { return kind_; }
  ImageFormat images() const { return format_; }
  bool counts_padding() const { return count_padding_; }
  bool columns_first() const { return columns_first_; }  // Indices
  int64_t power() const { return power_; }               // LpPool's p
  // Bytes of MaxPool's reserve per output element: the chosen entry of the window.
  int64_t index_bytes() const { return entries() <= 256 ? 1 : 4; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;
  size_t reserve_bytes(const LocalSpecs& local) const override;

 private:
  // The name by which kernels are found: those of one or two axes and one output are others.
  static std::string_view kernel_name(Kind kind, const NodeFacts& facts);
  int64_t entries() const;  // of a window
  void set_space(const Shape& image);

  Kind kind_;
  ImageFormat format_;
  bool count_padding_;
  bool columns_first_;
  int64_t power_;
  std::vector<AxisWindow> windows_;
};

}  // namespace kerf::ops
