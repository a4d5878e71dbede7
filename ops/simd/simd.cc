#include "ops/simd/simd.h"

#include <cstring>

#include "ops/simd/lanes.h"

namespace kerf::ops::simd {

KERF_CLONES void add(const float* from, int64_t count, float* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

void copy_or_add(const float* from, int64_t count, float* to, bool accumulate) {
  parallel_pieces(count, kLeastElements, [&](int64_t begin, int64_t end) {
    if (accumulate)
      add(from + begin, end - begin, to + begin);
    else
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin) * sizeof(float));
  });
}

KERF_CLONES float sum_of(const float* x, int64_t count) {
  return sum_in_lanes(count, [=](int64_t i) { return x[i]; });
}

}  // namespace kerf::ops::simd
