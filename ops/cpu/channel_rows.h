// Sums and maps over the rows of a tensor [samples, channels, inner], channel by channel: what batch
// normalisation is made of. Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/simd/simd.h"
#include "ops/tensor.h"

namespace kerf::ops::cpu {

struct Channels {
  int64_t samples = 0;
  int64_t channels = 0;
  int64_t inner = 1;
  // Elements per channel.
  int64_t count() const { return samples * inner; }
  // Channels that are worth a thread.
  int64_t least() const {
    return 1 + simd::kLeastElements / std::max<int64_t>(count(), 1);
  }
};

inline Channels channels_of(const Shape& shape) {
  Channels result{shape[0], shape[1]};
  for (int axis = 2; axis < shape.rank(); ++axis) result.inner *= shape[axis];
  return result;
}

// Of one row of `count` elements.
float sum_row(const float* x, int64_t count);
float sum_centred(const float* x, float mean, int64_t count);          // x - mean
float sum_centred_squares(const float* x, float mean, int64_t count);  // (x - mean)^2
float sum_centred_products(const float* dy, const float* x, float mean, int64_t count);
// y = (x - mean) * scale + shift
void scale_centred(const float* x, float mean, float scale, float shift, int64_t count, float* y);
// dx = dy * scale + (x - mean) * slope + shift; dy may be null, which is 0.
void centred_gradient(const float* dy, float scale, const float* x, float mean, float slope,
                      float shift, int64_t count, float* dx);

// Calls row(channel, offset) for the rows of channels [begin, end): blocks of channels, in each the
// samples in ascending order.
template <class Row>
void for_rows(const Channels& c, int64_t begin, int64_t end, const Row& row) {
  constexpr int64_t kBlock = 64;  // a sample's stretch of them, where inner is 1
  for (int64_t first = begin; first < end; first += kBlock)
    for (int64_t n = 0; n < c.samples; ++n)
      for (int64_t i = first; i < std::min(first + kBlock, end); ++i)
        row(i, (n * c.channels + i) * c.inner);
}

}  // namespace kerf::ops::cpu
