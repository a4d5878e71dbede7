// A window over two axes of space (ops/window.h) for bodies: rows first, columns second.
#pragma once

#include "ops/cuda/launch.cuh"
#include "ops/window.h"

namespace kerf::ops::cuda {

struct WindowAxis {
  int64_t input;
  int64_t output;
  int64_t kernel;
  int64_t stride;
  int64_t dilation;
  int64_t pad;

  // The input index under entry `k` of window `o`; outside of [0, input) in the padding.
  KERF_DEVICE int64_t under(int64_t o, int64_t k) const { return o * stride - pad + k * dilation; }
  KERF_DEVICE bool has(int64_t i) const { return i >= 0 && i < input; }
  // The window whose entry `k` lies on input index `i`; -1 if there is none.
  KERF_DEVICE int64_t over(int64_t i, int64_t k) const {
    const int64_t from = i + pad - k * dilation;
    return from < 0 || from % stride != 0 || from / stride >= output ? -1 : from / stride;
  }
};

struct WindowView {
  WindowAxis rows;
  WindowAxis columns;
  KERF_DEVICE int64_t entries() const { return rows.kernel * columns.kernel; }
};

inline WindowView window_view(const Window& window) {
  const auto axis = [&](size_t i) {
    return WindowAxis{window.input[i],   window.output[i],    window.kernel[i],
                      window.strides[i], window.dilations[i], window.pads_begin[i]};
  };
  return {axis(0), axis(1)};
}

}  // namespace kerf::ops::cuda
