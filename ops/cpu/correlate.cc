#include "ops/cpu/correlate.h"

#include <cstring>

namespace kerf::ops::cpu {
namespace {

template <int kLanes>
struct Lanes {
  typedef float Vector __attribute__((vector_size(kLanes * 4)));
};

// kFilterBlock x 3 vectors of sums stay in registers; each step loads 3 vectors and 4 numbers.
template <int kLanes>
[[gnu::always_inline]] inline void correlate_in(const Correlation& c) {
  using Vector = typename Lanes<kLanes>::Vector;
  constexpr int kColumns = 3;
  for (int64_t p = 0; p < c.count; p += kColumns * kLanes) {
    Vector sum[kFilterBlock][kColumns];
#pragma GCC unroll 4
    for (int f = 0; f < kFilterBlock; ++f)
#pragma GCC unroll 3
      for (int v = 0; v < kColumns; ++v) sum[f][v] = c.bias[f] - Vector{};
    for (int64_t t = 0; t < c.taps; ++t) {
      Vector x[kColumns];
#pragma GCC unroll 3
      for (int v = 0; v < kColumns; ++v)
        std::memcpy(&x[v], c.in + c.offsets[t] + p + v * kLanes, sizeof x[v]);
      const float* w = c.w + t * kFilterBlock;
#pragma GCC unroll 4
      for (int f = 0; f < kFilterBlock; ++f)
#pragma GCC unroll 3
        for (int v = 0; v < kColumns; ++v) sum[f][v] += w[f] * x[v];
    }
#pragma GCC unroll 4
    for (int f = 0; f < kFilterBlock; ++f)
#pragma GCC unroll 3
      for (int v = 0; v < kColumns; ++v)
        std::memcpy(c.out + f * c.out_stride + p + v * kLanes, &sum[f][v], sizeof sum[f][v]);
  }
}

// The sums of kFilterBlock filters x kTaps taps stay in registers over all samples.
template <int kLanes, int kTaps>
[[gnu::always_inline]] inline void sum_some_taps(const TapSums& s, int64_t first) {
  using Vector = typename Lanes<kLanes>::Vector;
  Vector sum[kFilterBlock][kTaps] = {};
  for (int64_t n = 0; n < s.samples; ++n) {
    const float* a = s.a + n * s.a_sample;
    const float* in = s.in + n * s.in_sample;
    for (int64_t p = 0; p < s.count; p += kLanes) {
      Vector left[kFilterBlock];
#pragma GCC unroll 4
      for (int f = 0; f < kFilterBlock; ++f)
        std::memcpy(&left[f], a + f * s.a_stride + p, sizeof left[f]);
#pragma GCC unroll 5
      for (int t = 0; t < kTaps; ++t) {
        Vector right;
        std::memcpy(&right, in + s.offsets[first + t] + p, sizeof right);
#pragma GCC unroll 4
        for (int f = 0; f < kFilterBlock; ++f) sum[f][t] += left[f] * right;
      }
    }
  }
  for (int f = 0; f < kFilterBlock; ++f)
    for (int t = 0; t < kTaps; ++t) {
      float parts[kLanes];
      std::memcpy(parts, &sum[f][t], sizeof parts);
      float total = 0;
      for (const float part : parts) total += part;
      s.sums[f * s.sums_stride + first + t] += total;
    }
}

template <int kLanes, int kTaps>
[[gnu::always_inline]] inline void sum_taps_in(const TapSums& s) {
  int64_t t = 0;
  for (; t + kTaps <= s.taps; t += kTaps) sum_some_taps<kLanes, kTaps>(s, t);
  for (; t < s.taps; ++t) sum_some_taps<kLanes, 1>(s, t);
}

#if defined(__x86_64__)
[[gnu::target("avx512f")]] void correlate_avx512(const Correlation& c) { correlate_in<16>(c); }
[[gnu::target("avx2,fma")]] void correlate_avx2(const Correlation& c) { correlate_in<8>(c); }
[[gnu::target("avx512f")]] void sum_taps_avx512(const TapSums& s) { sum_taps_in<16, 5>(s); }
[[gnu::target("avx2,fma")]] void sum_taps_avx2(const TapSums& s) { sum_taps_in<8, 3>(s); }

bool has_avx512() { return __builtin_cpu_supports("avx512f") != 0; }
bool has_avx2() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
}
#endif

}  // namespace

void correlate(const Correlation& c) {
#if defined(__x86_64__)
  if (has_avx512()) return correlate_avx512(c);
  if (has_avx2()) return correlate_avx2(c);
#endif
  correlate_in<4>(c);
}

void sum_taps(const TapSums& s) {
#if defined(__x86_64__)
  if (has_avx512()) return sum_taps_avx512(s);
  if (has_avx2()) return sum_taps_avx2(s);
#endif
  sum_taps_in<4, 2>(s);
}

}  // namespace kerf::ops::cpu
