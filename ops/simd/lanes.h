// Sums whose order depends on their length only: sixteen interleaved partial sums, written out so
// that every instruction set adds in the same order; the largest number found likewise; and
// functions of every number, with the last ones of a row in vectors too.
//
// All for use within a KERF_CLONES function.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace kerf::ops::simd {

inline constexpr int64_t kLanes = 16;

// The sum of term(i) for i in [0, count).
template <class Sum = float, class Term>
[[gnu::always_inline]] inline Sum sum_in_lanes(int64_t count, const Term& term) {
  Sum sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
#pragma omp simd
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += term(i + lane);
  for (int64_t lane = 0; i < count; ++i, ++lane) sums[lane] += term(i);
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    for (int64_t lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
  return sums[0];
}

// NaN stays.
[[gnu::always_inline]] inline float larger(float most, float x) {
  return ((x > most) | (x != x)) ? x : most;
}

// values[i] = of(values[i]) for i in [0, count); `of` is right for 0 as well.
template <class Of>
[[gnu::always_inline]] inline void change_in_lanes(float* values, int64_t count, const Of& of) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
#pragma omp simd
    for (int64_t lane = 0; lane < kLanes; ++lane) values[i + lane] = of(values[i + lane]);
  if (i == count) return;
  float last[kLanes] = {};
  std::copy(values + i, values + count, last);
#pragma omp simd
  for (int64_t lane = 0; lane < kLanes; ++lane) last[lane] = of(last[lane]);
  std::copy_n(last, count - i, values + i);
}

// The largest of x[0, count), minus infinity of none.
[[gnu::always_inline]] inline float largest_in_lanes(const float* x, int64_t count) {
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  float most[kLanes];
  std::fill_n(most, kLanes, kNothing);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
#pragma omp simd
    for (int64_t lane = 0; lane < kLanes; ++lane) most[lane] = larger(most[lane], x[i + lane]);
  for (int64_t lane = 0; i < count; ++i, ++lane) most[lane] = larger(most[lane], x[i]);
#pragma GCC unroll 4
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
#pragma omp simd
    for (int64_t lane = 0; lane < width; ++lane)
      most[lane] = larger(most[lane], most[lane + width]);
  return most[0];
}

}  // namespace kerf::ops::simd
