// An image in either order of its axes (ops/image_format.h), for bodies.
#pragma once

#include "ops/cuda/launch.cuh"
#include "ops/image_format.h"

namespace kerf::ops::cuda {

struct ImagePlace {
  int64_t sample;
  int64_t channel;
  int64_t row;
  int64_t column;
};

struct ImageView {
  int64_t channels;
  int64_t rows;
  int64_t columns;
  bool channels_last;

  KERF_DEVICE int64_t at(int64_t sample, int64_t channel, int64_t row, int64_t column) const {
    return channels_last ? ((sample * rows + row) * columns + column) * channels + channel
                         : ((sample * channels + channel) * rows + row) * columns + column;
  }
  // Of element `i`.
  KERF_DEVICE ImagePlace place(int64_t i) const {
    if (channels_last)
      return {i / channels / columns / rows, i % channels, i / channels / columns % rows,
              i / channels % columns};
    return {i / columns / rows / channels, i / columns / rows % channels, i / columns % rows,
            i % columns};
  }
  KERF_DEVICE int64_t plane() const { return rows * columns; }
};

inline ImageView image_view(ImageFormat format, const Shape& stored) {
  const Shape onnx = onnx_shape(format, stored);
  if (onnx.rank() == 3) return {onnx[1], 1, onnx[2], false};
  return {onnx[1], onnx[2], onnx[3], format == ImageFormat::kChannelsLast};
}

}  // namespace kerf::ops::cuda
