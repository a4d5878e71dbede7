// Windows that slide over the axes of space, one to three: what convolutions and pools have in
// common.
#pragma once

#include <array>
#include <compare>
#include <vector>

#include "ops/operator.h"

namespace kerf::ops {

// A window along one axis of an input of concrete extent: auto_pad resolved, output extent known.
struct AxisWindow {
  int64_t input = 1;
  int64_t output = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_begin = 0;
  int64_t pad_end = 0;
  // From the first entry of a window to behind its last.
  int64_t reach() const { return (kernel - 1) * dilation + 1; }
  auto operator<=>(const AxisWindow&) const = default;
};

// Height first, width second.
using Extent2 = std::array<int64_t, 2>;

// The same for all axes. Where there is one, it is the width; where there is no depth, that is one
// entry.
struct Window {
  Extent2 input{};
  Extent2 output{};
  Extent2 kernel{};
  Extent2 strides{};
  Extent2 dilations{};
  Extent2 pads_begin{};
  Extent2 pads_end{};
  AxisWindow depth{};
  bool flat() const { return depth == AxisWindow{}; }
  auto operator<=>(const Window&) const = default;
};

// Of one to three axes, in ONNX's order.
Window window_of(const std::vector<AxisWindow>& axes);
// What ONNX's order of so many axes calls them: columns; rows, columns; depth, rows, columns.
std::vector<std::string> names_of_space(size_t axes);

// The ONNX attributes that all have: kernel_shape, strides, dilations, pads, auto_pad.
std::vector<FormalAttribute> window_attributes();

enum class AutoPad : uint8_t { kNotSet, kValid, kSameUpper, kSameLower };
AutoPad auto_pad_of(std::string_view op, const Attributes& attributes);
// The attribute's numbers, each at least `least`, or as many of `otherwise`. Throws Error{kUsage}
// that names `op` and the attribute.
std::vector<int64_t> window_numbers(std::string_view op, const Attributes& attributes,
                                    const std::string& name, size_t count, int64_t least,
                                    int64_t otherwise);

// Refuses an axis of space that is the batch, or has no index: Error{kUsage} that names both.
void check_space(std::string_view op, int64_t extent, size_t axis);

// Windows over an input of these extents, as the attributes say (ceil_mode too, where there is
// one and no auto_pad). `kernel`: the weights' extents, which kernel_shape only repeats; empty:
// kernel_shape says it. Throws Error{kUsage} that names `op` where an attribute is wrong or a
// window does not fit.
std::vector<AxisWindow> make_windows(std::string_view op, const Attributes& attributes,
                                     const std::vector<int64_t>& input,
                                     const std::vector<int64_t>& kernel = {});

// Whether any entry of window `o` lies on the input.
bool sees_input(const AxisWindow& window, int64_t o);
// A window no entry of which does; -1 where there is none. Takes time for the padding, whatever the
// input's extent.
int64_t blind_window(const AxisWindow& window);
// How the input's axis follows from the output's.
SlidingWindow sliding(const AxisWindow& window);
// The window over what this range of the output reads: local extents, and padding only where the
// whole is padded.
AxisWindow local_window(const AxisWindow& whole, const IndexSet& outputs);
// Of all axes; `outputs` are the last of the iterations' axes.
Window local_window(const std::vector<AxisWindow>& whole, const Box& iterations);

}  // namespace kerf::ops
