#include "ops/cpu/tap_sums.h"

#include <array>
#include <cstring>
#include <utility>

#include "runtime/error.h"

namespace kerf::ops::cpu {
namespace {

template <int kLanes>
struct Lanes {
  typedef float Vector __attribute__((vector_size(kLanes * 4)));
};

template <int kLanes>
[[gnu::always_inline]] inline void load(const float* from, typename Lanes<kLanes>::Vector& to) {
  std::memcpy(&to, from, sizeof to);
}

// Three pixels each are reached from one address: of fourteen addresses most would be in memory.
constexpr int kReach = 3;

template <int kLanes, int kPixels>
[[gnu::always_inline]] inline void sum_pixels_in(const PixelSums& s) {
  using Vector = typename Lanes<kLanes>::Vector;
  constexpr int kBases = (kPixels + kReach - 1) / kReach;
  const int64_t stride = s.pixel_stride;
  Vector sum[kPixels];
  Vector start;
  load<kLanes>(s.start, start);
#pragma GCC unroll 14
  for (int p = 0; p < kPixels; ++p) sum[p] = start;
  for (int64_t r = 0; r < s.run_count; ++r) {
    const float* w = s.w + s.runs[r].w_offset;
    const float* in[kBases];
#pragma GCC unroll 5
    for (int b = 0; b < kBases; ++b) in[b] = s.in + s.runs[r].in_offset + b * kReach * stride;
    for (int64_t t = 0; t < s.taps; ++t, w += kLanes) {
      Vector weight;
      load<kLanes>(w, weight);
#pragma GCC unroll 14
      for (int p = 0; p < kPixels; ++p) sum[p] += weight * in[p / kReach][p % kReach * stride];
#pragma GCC unroll 5
      for (int b = 0; b < kBases; ++b) ++in[b];
    }
  }
#pragma GCC unroll 14
  for (int p = 0; p < kPixels; ++p) std::memcpy(s.out + p * s.out_stride, &sum[p], sizeof sum[p]);
}

template <int kLanes, int kRows, int kTaps>
[[gnu::always_inline]] inline void sum_taps_in(const TapSums& s) {
  using Vector = typename Lanes<kLanes>::Vector;
  Vector sum[kRows * kTaps] = {};
  for (int64_t n = 0; n < s.pixels.samples; ++n)
    for (int64_t y = 0; y < s.pixels.rows; ++y) {
      const float* dy = s.dy + n * s.dy_sample + y * s.dy_row;
      const float* x = s.x + n * s.x_sample + y * s.x_row;
      for (int64_t i = 0; i < s.pixels.columns; ++i, dy += s.dy_column, x += s.x_column) {
        Vector gradient;
        load<kLanes>(dy, gradient);
#pragma GCC unroll 14
        for (int t = 0; t < kTaps; ++t) sum[t] += gradient * x[t];
        if constexpr (kRows == 2) {
          const float* below = x + s.second;
#pragma GCC unroll 14
          for (int t = 0; t < kTaps; ++t) sum[kTaps + t] += gradient * below[t];
        }
      }
    }
  for (int t = 0; t < kRows * kTaps; ++t) {
    Vector before;
    load<kLanes>(s.sums + t * kLanes, before);
    before += sum[t];
    std::memcpy(s.sums + t * kLanes, &before, sizeof before);
  }
}

using SumPixels = void (*)(const PixelSums&);
using SumTaps = void (*)(const TapSums&);

// What one instruction set has: functions by number of sums.
struct Loops {
  int64_t lanes = 0;
  std::array<SumPixels, kMostSums> sum_pixels{};
  std::array<SumTaps, kMostSums> sum_taps{};
  std::array<SumTaps, kMostSums / 2> sum_two_rows{};
};

#define KERF_TAP_LOOPS(NAME, TARGET, LANES)                                               \
  template <int kPixels>                                                                  \
  TARGET void sum_pixels_##NAME(const PixelSums& s) {                                     \
    sum_pixels_in<LANES, kPixels>(s);                                                     \
  }                                                                                       \
  template <int kRows, int kTaps>                                                         \
  TARGET void sum_taps_##NAME(const TapSums& s) {                                         \
    sum_taps_in<LANES, kRows, kTaps>(s);                                                  \
  }                                                                                       \
  template <int... i, int... j>                                                           \
  Loops make_##NAME(std::integer_sequence<int, i...>, std::integer_sequence<int, j...>) { \
    return {LANES,                                                                        \
            {sum_pixels_##NAME<i + 1>...},                                                \
            {sum_taps_##NAME<1, i + 1>...},                                               \
            {sum_taps_##NAME<2, j + 1>...}};                                              \
  }

#if defined(__x86_64__)
KERF_TAP_LOOPS(avx512, [[gnu::target("avx512f")]], 16)
KERF_TAP_LOOPS(avx2, [[gnu::target("avx2,fma")]], 8)
#endif
KERF_TAP_LOOPS(plain, , 4)

Loops best_loops() {
  const std::make_integer_sequence<int, kMostSums> all;
  const std::make_integer_sequence<int, kMostSums / 2> half;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") != 0) return make_avx512(all, half);
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0)
    return make_avx2(all, half);
#endif
  return make_plain(all, half);
}

const Loops& loops() {
  static const Loops kLoops = best_loops();
  return kLoops;
}

}  // namespace

int64_t lanes() { return loops().lanes; }

void sum_pixels(const PixelSums& s) {
  KERF_CHECK(s.pixels >= 1 && s.pixels <= kMostSums, "{} pixels at once", s.pixels);
  loops().sum_pixels[static_cast<size_t>(s.pixels - 1)](s);
}

void sum_taps(const TapSums& s) {
  const int64_t most = s.second == 0 ? kMostSums : kMostSums / 2;
  KERF_CHECK(s.taps >= 1 && s.taps <= most, "{} taps at once", s.taps);
  const auto at = static_cast<size_t>(s.taps - 1);
  (s.second == 0 ? loops().sum_taps[at] : loops().sum_two_rows[at])(s);
}

}  // namespace kerf::ops::cpu
