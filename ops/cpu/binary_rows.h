// Rows of the element-wise functions of two inputs in float32: every smooth entry of ops/binary.h.
#pragma once

#include "ops/binary.h"
#include "ops/simd/lanes.h"
#include "ops/simd/simd.h"
#include "ops/simd/vector_math.h"

namespace kerf::ops::cpu {

// One that calls the mathematical library is computed in whole blocks (simd/vector_math.h).
template <size_t kIndex>
inline constexpr bool kInBlocks = std::get<kIndex>(kBinary).flops > 1;

// What one row reads; the values of neighbours are 0 or 1 apart.
struct RowOfTwo {
  const float* dy = nullptr;
  const float* a = nullptr;
  const float* b = nullptr;
  const float* y = nullptr;
  int64_t count = 0;
};

// kA, kB: how far apart the values of neighbours are.
template <size_t kIndex, int kA, int kB>
KERF_CLONES void forward_row(const float* a, const float* b, int64_t count, float* y) {
  constexpr auto function = std::get<kIndex>(kBinary).forward;
  if constexpr (kInBlocks<kIndex>) {
    constexpr int64_t kBlock = simd::kBlock;
    for (int64_t begin = 0; begin < count; begin += kBlock) {
      const int64_t some = std::min(kBlock, count - begin);
      float from_a[kBlock] = {};
      float from_b[kBlock] = {};
      float to[kBlock];
      for (int64_t i = 0; i < some; ++i) {
        from_a[i] = a[kA * (begin + i)];
        from_b[i] = b[kB * (begin + i)];
      }
#pragma omp simd
      for (int64_t i = 0; i < kBlock; ++i) to[i] = function(from_a[i], from_b[i]);
      std::copy_n(to, some, y + begin);
    }
  } else {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) y[i] = function(a[kA * i], b[kB * i]);
  }
}

enum class Into : uint8_t { kSet, kAdd };

// The gradient of input kOf at element i of a row, for use within a KERF_CLONES function.
template <size_t kIndex, int kOf, int kA, int kB>
[[gnu::always_inline]] inline float slope_at(const RowOfTwo& row, int64_t i) {
  constexpr auto slope = [] {
    if constexpr (kOf == 0)
      return std::get<kIndex>(kBinary).slope_a;
    else
      return std::get<kIndex>(kBinary).slope_b;
  }();
  const float a = (slope.reads & kReadsA) != 0 ? row.a[kA * i] : 0.0F;
  const float b = (slope.reads & kReadsB) != 0 ? row.b[kB * i] : 0.0F;
  const float y = (slope.reads & kReadsY) != 0 ? row.y[i] : 0.0F;
  return slope.of(row.dy[i], a, b, y);
}

// to[i] = or += the gradient of input kOf; kOther: how far apart the other input's values are.
template <size_t kIndex, int kOf, int kOther, Into kInto>
KERF_CLONES void slope_row(const RowOfTwo& row, float* to) {
  // NOLINTBEGIN(bugprone-branch-clone): where kOther is 1
  constexpr int kA = kOf == 0 ? 1 : kOther;
  constexpr int kB = kOf == 0 ? kOther : 1;
  // NOLINTEND(bugprone-branch-clone)
  if constexpr (kInBlocks<kIndex>) {
    constexpr int64_t kBlock = simd::kBlock;
    for (int64_t begin = 0; begin < row.count; begin += kBlock) {
      const int64_t some = std::min(kBlock, row.count - begin);
      float dy[kBlock] = {};
      float a[kBlock] = {};
      float b[kBlock] = {};
      float y[kBlock] = {};
      float slopes[kBlock];
      const RowOfTwo block{dy, a, b, y, kBlock};
      for (int64_t i = 0; i < some; ++i) {
        dy[i] = row.dy[begin + i];
        if (row.a != nullptr) a[i] = row.a[kA * (begin + i)];
        if (row.b != nullptr) b[i] = row.b[kB * (begin + i)];
        if (row.y != nullptr) y[i] = row.y[begin + i];
      }
#pragma omp simd
      for (int64_t i = 0; i < kBlock; ++i) slopes[i] = slope_at<kIndex, kOf, 1, 1>(block, i);
      for (int64_t i = 0; i < some; ++i)
        to[begin + i] = kInto == Into::kAdd ? to[begin + i] + slopes[i] : slopes[i];
    }
  } else {
    const int64_t count = row.count;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float slope = slope_at<kIndex, kOf, kA, kB>(row, i);
      to[i] = kInto == Into::kAdd ? to[i] + slope : slope;
    }
  }
}

// The sum of the gradient of input kOf, one value repeated over the row.
template <size_t kIndex, int kOf>
KERF_CLONES float slope_sum(const RowOfTwo& row) {
  constexpr int kA = kOf == 0 ? 0 : 1;
  constexpr int kB = kOf == 0 ? 1 : 0;
  return simd::sum_in_lanes(row.count,
                            [&](int64_t i) { return slope_at<kIndex, kOf, kA, kB>(row, i); });
}

}  // namespace kerf::ops::cpu
