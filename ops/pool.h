// MaxPool (ONNX, opset 12) and AveragePool (opset 11): windows over two axes of space, channel by
// channel.
//
//   X [N, C, H, W]   Y [N, C, H', W']
//
// Channels may be divided at will; a box that divides space is refused. MaxPool has one output here
// (no Indices) and takes the first of equal entries, in row-major order of the window.
#pragma once

#include <memory>

#include "ops/window.h"

namespace kerf::ops {

std::unique_ptr<const Operator> make_max_pool();
std::unique_ptr<const Operator> make_average_pool();
// Bytes of MaxPool's memory per output element: the chosen entry of the window.
int64_t max_pool_index_bytes(const WindowOptions& options);

}  // namespace kerf::ops
