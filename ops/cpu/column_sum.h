// Sums over rows in a fixed order, whatever the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kerf::ops::cpu {

// to[j] (+)= scale * sum over i of from[i][j], rows in ascending order.
inline void add_columns(const float* from, int64_t rows, int64_t columns, float scale, float* to,
                        bool accumulate) {
  constexpr int64_t kStrip = 512;
  float sum[kStrip];
  for (int64_t first = 0; first < columns; first += kStrip) {
    const int64_t width = std::min(kStrip, columns - first);
    std::fill_n(sum, kStrip, 0.0F);
    for (int64_t i = 0; i < rows; ++i) {
      const float* row = from + i * columns + first;
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) sum[j] += row[j];
    }
    for (int64_t j = 0; j < width; ++j)
      to[first + j] = (accumulate ? to[first + j] : 0.0F) + scale * sum[j];
  }
}

}  // namespace kerf::ops::cpu
