// Sums whose order depends on their length only: sixteen interleaved partial sums, written out so
// that every instruction set adds in the same order; and the largest number found likewise.
#pragma once

#include <cstdint>
#include <limits>

namespace kerf::ops::simd {

// The sum of term(i) for i in [0, count), for use within a KERF_CLONES function.
template <class Term>
[[gnu::always_inline]] inline float sum_in_lanes(int64_t count, const Term& term) {
  constexpr int64_t kLanes = 16;
  float sums[kLanes] = {};
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

// The largest of x[0, count), minus infinity of none, for use within a KERF_CLONES function.
[[gnu::always_inline]] inline float largest_in_lanes(const float* x, int64_t count) {
  constexpr int64_t kLanes = 16;
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  float most[kLanes];
  for (float& one : most) one = kNothing;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
#pragma omp simd
    for (int64_t lane = 0; lane < kLanes; ++lane) most[lane] = larger(most[lane], x[i + lane]);
  float result = kNothing;
  for (; i < count; ++i) result = larger(result, x[i]);
  for (const float one : most) result = larger(result, one);
  return result;
}

}  // namespace kerf::ops::simd
