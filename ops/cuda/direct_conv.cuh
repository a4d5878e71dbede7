// Convolution as its definition says it: every result sums up its own products. Any groups, pads,
// strides and dilations, either order of images; no workspace; sums in the order of the loops, so
// equal calls give equal bits.
#pragma once

#include <cmath>

#include "ops/cuda/bodies.cuh"
#include "ops/cuda/image_view.cuh"
#include "ops/cuda/window_view.cuh"

namespace kerf::ops::cuda {

// W [groups * filters, channels, kh, kw].
struct ConvShape {
  WindowView window;
  ImageView x;
  ImageView y;
  int64_t samples;
  int64_t channels;  // of a group
  int64_t filters;   // of a group

  KERF_DEVICE int64_t w_at(int64_t filter, int64_t c) const {
    return (filter * channels + c) * window.entries();
  }
  // The first channel of X that a filter sees.
  KERF_DEVICE int64_t first_channel(int64_t filter) const { return filter / filters * channels; }
};

struct ConvForward {
  ConvShape shape;
  const float* x;
  const float* w;
  const float* bias;  // null: 0
  float* y;
  KERF_DEVICE void operator()(int64_t i) const {
    const WindowView& window = shape.window;
    const ImagePlace to = shape.y.place(i);
    const int64_t first = shape.first_channel(to.channel);
    float sum = 0;
    for (int64_t c = 0; c < shape.channels; ++c) {
      const float* taps = w + shape.w_at(to.channel, c);
      for (int64_t ky = 0; ky < window.rows.kernel; ++ky) {
        const int64_t iy = window.rows.under(to.row, ky);
        if (!window.rows.has(iy)) continue;
        for (int64_t kx = 0; kx < window.columns.kernel; ++kx) {
          const int64_t ix = window.columns.under(to.column, kx);
          if (window.columns.has(ix))
            sum = std::fma(x[shape.x.at(to.sample, first + c, iy, ix)],
                           taps[ky * window.columns.kernel + kx], sum);
        }
      }
    }
    y[i] = sum + (bias == nullptr ? 0.0F : bias[to.channel]);
  }
};

struct ConvInputGradient {
  ConvShape shape;
  const float* w;
  const float* dy;
  float* dx;
  KERF_DEVICE void operator()(int64_t i) const {
    const WindowView& window = shape.window;
    const ImagePlace to = shape.x.place(i);
    const int64_t first = to.channel / shape.channels * shape.filters;
    float sum = 0;
    for (int64_t filter = first; filter < first + shape.filters; ++filter) {
      const float* taps = w + shape.w_at(filter, to.channel % shape.channels);
      for (int64_t ky = 0; ky < window.rows.kernel; ++ky) {
        const int64_t oy = window.rows.over(to.row, ky);
        if (oy < 0) continue;
        for (int64_t kx = 0; kx < window.columns.kernel; ++kx) {
          const int64_t ox = window.columns.over(to.column, kx);
          if (ox >= 0)
            sum = std::fma(dy[shape.y.at(to.sample, filter, oy, ox)],
                           taps[ky * window.columns.kernel + kx], sum);
        }
      }
    }
    dx[i] = sum;
  }
};

// Row r is an entry of the weights; its terms are samples and places of the output.
struct ConvWeightGradient : Adding<float> {
  ConvShape shape;
  const float* x;
  const float* dy;
  float* to;
  bool accumulate;
  KERF_DEVICE int64_t length(int64_t) const { return shape.samples * shape.y.plane(); }
  KERF_DEVICE float term(int64_t row, int64_t i) const {
    const WindowView& window = shape.window;
    const int64_t n = i / shape.y.plane();
    const int64_t oy = i / shape.y.columns % shape.y.rows;
    const int64_t ox = i % shape.y.columns;
    const int64_t entry = row % window.entries();
    const int64_t c = row / window.entries() % shape.channels;
    const int64_t filter = row / window.entries() / shape.channels;
    const int64_t iy = window.rows.under(oy, entry / window.columns.kernel);
    const int64_t ix = window.columns.under(ox, entry % window.columns.kernel);
    if (!window.rows.has(iy) || !window.columns.has(ix)) return 0;
    return dy[shape.y.at(n, filter, oy, ox)] *
           x[shape.x.at(n, shape.first_channel(filter) + c, iy, ix)];
  }
  KERF_DEVICE void finish(int64_t row, float sum) const { put(to + row, accumulate, sum); }
};

// Row r is a filter.
struct ConvBiasGradient : Adding<float> {
  ImageView y;
  int64_t samples;
  const float* dy;
  float* to;
  bool accumulate;
  KERF_DEVICE int64_t length(int64_t) const { return samples * y.plane(); }
  KERF_DEVICE float term(int64_t row, int64_t i) const {
    return dy[y.at(i / y.plane(), row, i / y.columns % y.rows, i % y.columns)];
  }
  KERF_DEVICE void finish(int64_t row, float sum) const { put(to + row, accumulate, sum); }
};

}  // namespace kerf::ops::cuda
