#include "ops/cpu/plane_pool.h"

#include <algorithm>

#include "ops/cpu/pool_taps.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

// Windows of a row that are looked at together.
constexpr int64_t kTogether = 256;

struct Columns {
  int64_t begin = 0;
  int64_t end = 0;
};

// Calls visit(stride, offset, first, count, entry) for every entry of the windows `columns` of row
// `oy`: windows first, first + 1, ... have it on the input, at offset, offset + stride, ...
// kStride: what the compiler shall know, or 0.
template <int kStride, class Visit>
[[gnu::always_inline]] inline void for_stretches(const Window& w, int64_t oy,
                                                 const Columns& columns, const Visit& visit) {
  const int64_t stride = kStride == 0 ? w.strides[1] : kStride;
  const Taps rows = taps(w, 0, oy);
  for (int64_t ky = rows.first; ky < rows.last; ++ky) {
    const int64_t row = (rows.at + (ky - rows.first) * w.dilations[0]) * w.input[1];
    for (int64_t kx = 0; kx < w.kernel[1]; ++kx) {
      const int64_t at = kx * w.dilations[1] - w.pads_begin[1];  // of window 0
      if (at >= w.input[1]) continue;
      const int64_t first = std::max(columns.begin, at < 0 ? (-at + stride - 1) / stride : 0);
      const int64_t end = std::min(columns.end, (w.input[1] - 1 - at) / stride + 1);
      if (first < end)
        visit(stride, row + first * stride + at, first, end - first, ky * w.kernel[1] + kx);
    }
  }
}

// Calls work(row, columns) for all windows.
template <class Work>
[[gnu::always_inline]] inline void for_rows(const Window& w, const Work& work) {
  for (int64_t oy = 0; oy < w.output[0]; ++oy)
    for (int64_t begin = 0; begin < w.output[1]; begin += kTogether)
      work(oy, Columns{begin, std::min(begin + kTogether, w.output[1])});
}

template <int kStride>
[[gnu::always_inline]] inline void max_in(const Window& w, const float* x, float* y,
                                          uint8_t* narrow, int32_t* wide) {
  for_rows(
      w, [&](int64_t oy, const Columns& columns) __attribute__((always_inline)) {
        int32_t taken[kTogether];
        const int64_t width = columns.end - columns.begin;
        float* best = y + oy * w.output[1] + columns.begin;
        std::fill_n(taken, width, -1);
        std::fill_n(best, width, 0.0F);
        for_stretches<kStride>(
            w, oy, columns,
            [&](int64_t stride, int64_t at, int64_t first, int64_t count, int64_t entry)
                __attribute__((always_inline)) {
                  const float* from = x + at;
                  float* most = best + first - columns.begin;
                  int32_t* of = taken + first - columns.begin;
                  const auto number = static_cast<int32_t>(entry);
#pragma omp simd
                  for (int64_t i = 0; i < count; ++i) {
                    const float value = from[i * stride];
                    const bool take = (value > most[i]) | (value != value) | (of[i] < 0);
                    most[i] = take ? value : most[i];
                    of[i] = take ? number : of[i];
                  }
                });
        const int64_t to = oy * w.output[1] + columns.begin;
        if (narrow != nullptr)
          for (int64_t i = 0; i < width; ++i) narrow[to + i] = static_cast<uint8_t>(taken[i]);
        if (wide != nullptr) std::copy_n(taken, width, wide + to);
      });
}

template <int kStride>
[[gnu::always_inline]] inline void average_in(const Window& w, const AveragedEntries& entries,
                                              const float* x, float* y) {
  for_rows(
      w, [&](int64_t oy, const Columns& columns) __attribute__((always_inline)) {
        float* sums = y + oy * w.output[1];
        std::fill(sums + columns.begin, sums + columns.end, 0.0F);
        for_stretches<kStride>(
            w, oy, columns,
            [&](int64_t stride, int64_t at, int64_t first, int64_t count, int64_t)
                __attribute__((always_inline)) {
                  const float* from = x + at;
                  float* to = sums + first;
#pragma omp simd
                  for (int64_t i = 0; i < count; ++i) to[i] += from[i * stride];
                });
#pragma omp simd
        for (int64_t i = columns.begin; i < columns.end; ++i) sums[i] *= entries.share(oy, i);
      });
}

template <int kStride>
[[gnu::always_inline]] inline void average_gradient_in(const Window& w,
                                                       const AveragedEntries& entries,
                                                       const float* dy, float* dx) {
  std::fill_n(dx, input_plane(w), 0.0F);
  for_rows(
      w, [&](int64_t oy, const Columns& columns) __attribute__((always_inline)) {
        float parts[kTogether];
        const float* row = dy + oy * w.output[1];
#pragma omp simd
        for (int64_t i = columns.begin; i < columns.end; ++i)
          parts[i - columns.begin] = row[i] * entries.share(oy, i);
        for_stretches<kStride>(
            w, oy, columns,
            [&](int64_t stride, int64_t at, int64_t first, int64_t count, int64_t)
                __attribute__((always_inline)) {
                  const float* from = parts + first - columns.begin;
                  float* to = dx + at;
#pragma omp simd
                  for (int64_t i = 0; i < count; ++i) to[i * stride] += from[i];
                });
      });
}

}  // namespace

KERF_CLONES void max_of_plane(const Window& window, const float* x, float* y, uint8_t* narrow,
                              int32_t* wide) {
  if (window.strides[1] == 1) return max_in<1>(window, x, y, narrow, wide);
  if (window.strides[1] == 2) return max_in<2>(window, x, y, narrow, wide);
  max_in<0>(window, x, y, narrow, wide);
}

KERF_CLONES void average_of_plane(const Window& window, const AveragedEntries& entries,
                                  const float* x, float* y) {
  if (window.strides[1] == 1) return average_in<1>(window, entries, x, y);
  if (window.strides[1] == 2) return average_in<2>(window, entries, x, y);
  average_in<0>(window, entries, x, y);
}

KERF_CLONES void average_gradient_of_plane(const Window& window, const AveragedEntries& entries,
                                           const float* dy, float* dx) {
  if (window.strides[1] == 1) return average_gradient_in<1>(window, entries, dy, dx);
  if (window.strides[1] == 2) return average_gradient_in<2>(window, entries, dy, dx);
  average_gradient_in<0>(window, entries, dy, dx);
}

}  // namespace kerf::ops::cpu
