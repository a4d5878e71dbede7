// Sums and maps over the channels of a tensor: what batch normalisation is made of.
//
//   [samples, channels, inner]    a channel's numbers lie in rows of `inner`
//   [samples, channels]           side by side, as with channels last: `samples` are all positions
//
// Channels are worked on in blocks, so that results do not depend on the number of threads. Pure
// functions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "ops/image_format.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {

// Channels that are worked on at once: a sample's stretch of them, where inner is 1.
inline constexpr int64_t kChannelBlock = 64;

struct Channels {
  int64_t samples = 0;
  int64_t channels = 0;
  int64_t inner = 1;
  // Elements per channel.
  int64_t count() const { return samples * inner; }
  bool side_by_side() const { return inner == 1; }
  // Samples whose channels are taken for one sample's, so that vectors are full: as many as make a
  // block.
  int64_t together() const {
    return side_by_side() ? std::max<int64_t>(kChannelBlock / std::max<int64_t>(channels, 1), 1)
                          : 1;
  }
  // Channels that are worth a thread. Such as go together are not divided: sums would be others.
  int64_t least() const {
    return together() > 1 ? channels : 1 + simd::kLeastElements / std::max<int64_t>(count(), 1);
  }
};

Channels channels_of(const Shape& shape, ImageFormat format);

using ChannelSums = std::array<double, kChannelBlock>;
using ChannelValues = std::array<float, kChannelBlock>;

// At most kChannelBlock channels, [begin, end).
struct ChannelBlock {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
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

// Of one row of `count` numbers.
float sum_row_centred_squares(const float* x, float mean, int64_t count);  // (x - mean)^2
// y = (x - mean) * scale + shift
void map_row(const float* x, float mean, float scale, float shift, int64_t count, float* y);

// Per channel of the block, by its place there. Rows, and a few lines of channels side by side, are
// summed in float, sums of them in double.
ChannelSums sum_channels(const Channels& c, const ChannelBlock& block, const float* x);
// Of x - mean, of its square, and of dy times it.
ChannelSums sum_centred(const Channels& c, const ChannelBlock& block, const float* x,
                        const ChannelValues& mean);
ChannelSums sum_centred_squares(const Channels& c, const ChannelBlock& block, const float* x,
                                const ChannelValues& mean);
ChannelSums sum_centred_products(const Channels& c, const ChannelBlock& block, const float* dy,
                                 const float* x, const ChannelValues& mean);

// to[c] (+)= the sum of channel c: a bias's gradient.
void add_channel_sums(ImageFormat format, const TensorView& dy, float* to, bool accumulate);

struct ChannelLine {
  ChannelValues mean{};
  ChannelValues scale{};
  ChannelValues shift{};
};
// y = (x - mean) * scale + shift
void map_channels(const Channels& c, const ChannelBlock& block, const float* x,
                  const ChannelLine& line, float* y);
// dx = dy * scale + (x - mean) * line.scale + line.shift; dy may be null, which is 0.
void map_channels_back(const Channels& c, const ChannelBlock& block, const float* dy,
                       const ChannelValues& scale, const float* x, const ChannelLine& line,
                       float* dx);

}  // namespace kerf::ops::cpu
