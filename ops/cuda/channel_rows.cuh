// A tensor [samples, channels, inner] by channels, for bodies: row c of the work is channel c. With
// channels last, `samples` are all positions and `inner` is 1.
#pragma once

#include "ops/cuda/launch.cuh"
#include "ops/image_format.h"

namespace kerf::ops::cuda {

struct ChannelRows {
  int64_t samples;
  int64_t channels;
  int64_t inner;
  KERF_DEVICE int64_t elements() const { return samples * inner; }
  // Entry `i` of channel `c`, samples in ascending order.
  KERF_DEVICE int64_t at(int64_t c, int64_t i) const {
    return (i / inner * channels + c) * inner + i % inner;
  }
  KERF_DEVICE int64_t channel(int64_t element) const { return element / inner % channels; }
};

inline ChannelRows channel_rows(const Shape& shape, ImageFormat format) {
  if (format == ImageFormat::kChannelsLast) {
    ChannelRows pixels{1, shape[shape.rank() - 1], 1};
    for (int axis = 0; axis + 1 < shape.rank(); ++axis) pixels.samples *= shape[axis];
    return pixels;
  }
  ChannelRows rows{shape[0], shape[1], 1};
  for (int axis = 2; axis < shape.rank(); ++axis) rows.inner *= shape[axis];
  return rows;
}

}  // namespace kerf::ops::cuda
