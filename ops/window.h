// Windows that slide over the last two axes: what Conv and the pools have in common.
#pragma once

#include <array>
#include <compare>

#include "ops/operator.h"

namespace kerf::ops {

// Height first, width second.
using Extent2 = std::array<int64_t, 2>;

struct WindowOptions {
  enum class AutoPad : uint8_t { kNotSet, kValid, kSameUpper, kSameLower };
  Extent2 kernel{};
  Extent2 strides{1, 1};
  Extent2 dilations{1, 1};
  Extent2 pads_begin{};
  Extent2 pads_end{};
  AutoPad auto_pad = AutoPad::kNotSet;
  bool ceil_mode = false;
};

// The ONNX attributes that both have: kernel_shape, strides, dilations, pads, auto_pad.
std::vector<FormalAttribute> window_attributes();
// Throws Error{kUsage} that names `op` and the attribute. kFromWeights: kernel_shape may be absent,
// which leaves WindowOptions::kernel at 0.
enum class KernelShape : uint8_t { kRequired, kFromWeights };
WindowOptions window_options(std::string_view op, const Attributes& attributes,
                             KernelShape kernel = KernelShape::kRequired);

// A window over an input of concrete extents: auto_pad resolved, output extents known.
struct Window {
  Extent2 input{};
  Extent2 output{};
  Extent2 kernel{};
  Extent2 strides{};
  Extent2 dilations{};
  Extent2 pads_begin{};
  Extent2 pads_end{};
  auto operator<=>(const Window&) const = default;
};

// Throws Error{kUsage} that names `op` where the window does not fit.
Window make_window(std::string_view op, const WindowOptions& options, const Extent2& input);

// Whether any entry of window `o` of an axis lies on the input.
bool sees_input(const Window& window, size_t axis, int64_t o);
// How an axis of the input follows from the same axis of the output.
SlidingWindow sliding(const Window& window, size_t axis);
// The window over the rows and columns of the input that these ranges of the output read: local
// extents, and padding only where the whole is padded.
Window local_window(const Window& whole, const IndexSet& rows, const IndexSet& columns);

}  // namespace kerf::ops
