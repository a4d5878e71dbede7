// Sums and maps over the rows of a tensor [samples, channels, inner], channel by channel: what
// batch normalisation is made of. Pure functions.
#pragma once

#include <algorithm>
#include <array>
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
  int64_t least() const { return 1 + simd::kLeastElements / std::max<int64_t>(count(), 1); }
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

// Channels that are worked on at once: a sample's stretch of them, where inner is 1.
inline constexpr int64_t kChannelBlock = 64;
using ChannelSums = std::array<double, kChannelBlock>;
using ChannelValues = std::array<float, kChannelBlock>;

// At most kChannelBlock channels, [begin, end).
struct ChannelBlock {
  int64_t begin = 0;
  int64_t end = 0;
  size_t local(int64_t channel) const { return static_cast<size_t>(channel - begin); }
};

// Calls work(block) for all channels, on as many threads as there are.
template <class Work>
void for_blocks(const Channels& c, const Work& work) {
  simd::parallel_pieces(c.channels, c.least(), [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kChannelBlock)
      work(ChannelBlock{first, std::min(first + kChannelBlock, end)});
  });
}

// Calls row(channel, offset) for the rows of the block, the samples in ascending order.
template <class Row>
void for_rows(const Channels& c, const ChannelBlock& block, const Row& row) {
  for (int64_t n = 0; n < c.samples; ++n)
    for (int64_t i = block.begin; i < block.end; ++i) row(i, (n * c.channels + i) * c.inner);
}

// Per channel of the block the sum of its rows' terms: rows in float, sums of them in double.
template <class Term>
ChannelSums channel_sums(const Channels& c, const ChannelBlock& block, const Term& term) {
  ChannelSums sums{};
  for_rows(c, block, [&](int64_t i, int64_t at) {
    sums[block.local(i)] += static_cast<double>(term(i, at));
  });
  return sums;
}

}  // namespace kerf::ops::cpu
