// Conv (ONNX, opset 11): cross-correlation over two axes of space.
//
//   X [N, C, H, W]   W [O, C/group, kh, kw]   B [O], optional   Y [N, O, H', W']
//
// A wanted set of output channels needs all channels of X (its gradient is a partial sum) and those
// filters; with groups, whole groups of output channels need just their own channels of X. Kernels
// read the number of groups off their local shapes: C of X / (C/group of W).
#pragma once

#include <memory>

#include "ops/window.h"

namespace kerf::ops {

// The window of a convolution with these shapes; `options` from window_options(kFromWeights).
// Throws Error{kUsage}.
Window conv_window(const WindowOptions& options, const Shape& x, const Shape& weights);
std::unique_ptr<const Operator> make_conv();

}  // namespace kerf::ops
