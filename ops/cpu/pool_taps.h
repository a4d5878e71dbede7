// What pooling kernels share: the planes of a tensor, and the entries of one window that lie on the
// input.
#pragma once

#include <algorithm>

#include "ops/simd/simd.h"
#include "ops/tensor.h"
#include "ops/window.h"

namespace kerf::ops::cpu {

// Entries [first, last) of window `o` along an axis, the first of them at input index `at`.
struct Taps {
  int64_t first = 0;
  int64_t last = 0;
  int64_t at = 0;
};

inline Taps taps(const AxisWindow& axis, int64_t o) {
  const int64_t start = o * axis.stride - axis.pad_begin;
  const int64_t step = axis.dilation;
  Taps result;
  if (start < 0) result.first = (-start + step - 1) / step;
  const int64_t reach = axis.input - start;  // entries must lie below it
  const int64_t within = step == 1 ? reach : (reach + step - 1) / step;  // a division is slow
  result.last = std::min(axis.kernel, within);
  result.at = start + result.first * step;
  return result;
}
inline Taps taps(const Window& window, size_t axis, int64_t o) {
  return taps(AxisWindow{.input = window.input[axis],
                         .kernel = window.kernel[axis],
                         .stride = window.strides[axis],
                         .dilation = window.dilations[axis],
                         .pad_begin = window.pads_begin[axis]},
              o);
}

// How many entries each row and each column of windows is averaged over.
struct AveragedEntries {
  const int32_t* rows = nullptr;
  const int32_t* columns = nullptr;
  // Of an entry in the average of a window.
  float share(int64_t row, int64_t column) const {
    return 1.0F / static_cast<float>(rows[row] * columns[column]);
  }
};

// Input and output elements of one channel.
inline int64_t input_plane(const Window& window) { return window.input[0] * window.input[1]; }
inline int64_t output_plane(const Window& window) { return window.output[0] * window.output[1]; }

// Runs work(p) for every channel p of every sample, in parallel.
template <class Work>
void for_planes(const Window& window, const TensorView& tensor, const Work& work) {
  if (tensor.elements() == 0) return;
  simd::parallel_pieces(tensor.shape[0] * tensor.shape[1],
                        1 + simd::kLeastElements / input_plane(window),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t p = begin; p < end; ++p) work(p);
                        });
}

}  // namespace kerf::ops::cpu
