// The two inner loops of direct_conv, compiled for each instruction set and picked at run time.
#pragma once

#include <cstdint>

namespace kerf::ops::cpu {

// Rows of out: kFilterBlock filters at a time; columns: up to kOverhang beyond `count` are read and
// written.
inline constexpr int64_t kFilterBlock = 4;
inline constexpr int64_t kOverhang = 48;

// out[f * out_stride + p] = bias[f] + sum over t of w[t * kFilterBlock + f] * in[offsets[t] + p],
// for f in [0, kFilterBlock) and p in [0, count).
struct Correlation {
  const float* in = nullptr;
  const int64_t* offsets = nullptr;
  int64_t taps = 0;
  const float* w = nullptr;
  const float* bias = nullptr;
  float* out = nullptr;
  int64_t out_stride = 0;
  int64_t count = 0;
};
void correlate(const Correlation& c);

// sums[f * sums_stride + t] += sum over samples n and p of
//   a[n * a_sample + f * a_stride + p] * in[n * in_sample + offsets[t] + p],
// for f in [0, kFilterBlock), t in [0, taps) and p in [0, count); `a` must be 0 in the overhang.
struct TapSums {
  const float* a = nullptr;
  int64_t a_stride = 0;
  int64_t a_sample = 0;
  const float* in = nullptr;
  int64_t in_sample = 0;
  const int64_t* offsets = nullptr;
  int64_t taps = 0;
  int64_t samples = 0;
  int64_t count = 0;
  float* sums = nullptr;
  int64_t sums_stride = 0;
};
void sum_taps(const TapSums& s);

}  // namespace kerf::ops::cpu
