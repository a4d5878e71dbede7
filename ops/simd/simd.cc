#include "ops/simd/simd.h"

#include <cstring>

namespace kerf::ops::simd {
namespace {

KERF_CLONES void add(const float* from, int64_t count, float* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

}  // namespace

void copy_or_add(const float* from, int64_t count, float* to, bool accumulate) {
  parallel_pieces(count, kLeastElements, [&](int64_t begin, int64_t end) {
    if (accumulate)
      add(from + begin, end - begin, to + begin);
    else
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin) * sizeof(float));
  });
}

// Sixteen interleaved partial sums, written out so that every instruction set adds in the same
// order.
KERF_CLONES float sum_of(const float* x, int64_t count) {
  constexpr int64_t kLanes = 16;
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
#pragma omp simd
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += x[i + lane];
  for (int64_t lane = 0; i < count; ++i, ++lane) sums[lane] += x[i];
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    for (int64_t lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
  return sums[0];
}

}  // namespace kerf::ops::simd
