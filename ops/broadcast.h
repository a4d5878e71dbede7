// NumPy's broadcasting, where operands may have the batch.
//
//   [N, T, D] and [T, D]   [N, C, H, W] and [1, C, 1, 1]   [T, 1] and [1, S]   [N, 1] and [5]
//
// Pure functions of shapes.
#pragma once

#include <string_view>
#include <vector>

#include "ops/image_format.h"

namespace kerf::ops {

// The shape that operands are repeated to. Throws Error{kUsage} that names the operator where there
// is none: extents that differ and are not 1, or the batch beside a number that it may not be.
Shape broadcast_shape(std::string_view op, const std::vector<Shape>& shapes);

// The operands of an element-wise operator, as they are repeated over its output. With channels
// last, what is no image with samples (a scale and shift of channels: [C, 1, 1]) stays as ONNX has
// it, and may have the channels alone.
class Repeated {
 public:
  Repeated() = default;
  // Absent operands have no part in it.
  Repeated(std::string_view op, const NodeFacts& facts);

  const Shape& output() const { return output_; }
  // Of the operands' local shapes, aligned with the output's last axes: same elements, same order.
  Shape aligned(int input, const Shape& local) const;
  // The space of an operator with one output.
  IterationSpace space() const;

 private:
  bool turned(int input) const { return turned_[static_cast<size_t>(input)]; }

  ImageFormat format_ = ImageFormat::kChannelsFirst;
  std::vector<Shape> shapes_;  // as they are given
  std::vector<bool> present_;
  std::vector<bool> turned_;  // as ONNX has it though images are not
  Shape output_;
};

// `channels_last` of definitions whose operands are Repeated.
std::optional<ChannelsLast> repeated_channels_last(const NodeFacts& facts);

}  // namespace kerf::ops
