// The inner loops of narrow_conv, compiled for each instruction set and picked at run time.
//
// Lanes of a vector are neighbouring filters (or whatever lies side by side in the result); taps
// are the numbers that each is a sum over.
#pragma once

#include <cstdint>

namespace kerf::ops::cpu {

// Lanes of the widest vectors that this processor has: 16, 8 or 4.
int64_t lanes();
// The most pixels, or taps, whose sums stay in registers.
inline constexpr int64_t kMostSums = 14;

// `count` taps in a row: tap t of pixel p is in[p * pixel_stride + in_offset + t], its weights are
// the lanes() from w[w_offset + t * lanes()] on.
struct Run {
  int64_t in_offset = 0;
  int64_t w_offset = 0;
};

// out[p * out_stride + lane] = start[lane] + sum over all taps of all runs of weight[lane] * tap,
// for p in [0, pixels), at most kMostSums; lanes() are written for each.
struct PixelSums {
  const float* in = nullptr;
  int64_t pixel_stride = 0;
  const float* w = nullptr;
  const Run* runs = nullptr;
  int64_t run_count = 0;
  int64_t taps = 0;  // of a run
  const float* start = nullptr;
  int64_t pixels = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
};
void sum_pixels(const PixelSums& s);

// Pixels of several samples, in rows.
struct Pixels {
  int64_t samples = 0;
  int64_t rows = 0;
  int64_t columns = 0;
};

// sums[t * lanes() + lane] += sum over all pixels of dy[lane] * x[t], t in [0, taps), at most
// kMostSums, and so for a second row of taps `second` further on in x, if that is not 0, which is
// for half as many taps: its sums follow the first's.
struct TapSums {
  Pixels pixels;
  const float* dy = nullptr;  // lanes() are read for each pixel
  int64_t dy_sample = 0, dy_row = 0, dy_column = 0;
  const float* x = nullptr;
  int64_t x_sample = 0, x_row = 0, x_column = 0;
  int64_t taps = 0;
  int64_t second = 0;
  float* sums = nullptr;
};
void sum_taps(const TapSums& s);

}  // namespace kerf::ops::cpu
