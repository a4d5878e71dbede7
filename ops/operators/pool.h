// MaxPool (ONNX, opset 12) and AveragePool (opset 11): windows over two axes of space, channel by
// channel.
//
//   X [N, C, H, W]   Y [N, C, H', W']     or channels last (image_format.h)
//
// Iterations: samples, channels, and ranges of rows and columns, whose windows may overlap in X.
// MaxPool has one output here (no Indices) and takes the first of equal entries, in row-major order
// of the window.
#pragma once

#include "ops/image_format.h"
#include "ops/window.h"

namespace kerf::ops {

class Pool final : public BoundOperator {
 public:
  enum class Kind : uint8_t { kMax, kAverage };
  Pool(std::string_view name, Kind kind, const NodeFacts& facts);

  // Of the call that computes these iterations; see Conv. What counts as padding for an average is
  // asked of the whole window.
  Window local_window(const Box& iterations) const;
  const Window& window() const { return window_; }
  ImageFormat images() const { return format_; }
  bool counts_padding() const { return count_padding_; }
  // Bytes of MaxPool's reserve per output element: the chosen entry of the window.
  int64_t index_bytes() const { return window_.kernel[0] * window_.kernel[1] <= 256 ? 1 : 4; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override { return {}; }
  size_t reserve_bytes(const LocalSpecs& local) const override;

 private:
  Kind kind_;
  ImageFormat format_;
  bool count_padding_;
  Window window_;
};

}  // namespace kerf::ops
