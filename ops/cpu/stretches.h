// Tensors that are stretches of a whole along one axis: what Split takes apart and Concat puts
// together. Any element type; only float32 can be added.
#pragma once

#include <cstring>
#include <vector>

#include "ops/folded.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {

struct Rows {
  std::byte* data = nullptr;
  int64_t stride = 0;  // bytes
};

// Copies `count` rows of `bytes` each, or adds them as float32.
inline void move_rows(const Rows& from, const Rows& to, int64_t count, int64_t bytes,
                      bool accumulate) {
  const int64_t least = 1 + simd::kLeastElements * 4 / std::max<int64_t>(bytes, 1);
  simd::parallel_pieces(count, least, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const std::byte* source = from.data + i * from.stride;
      std::byte* target = to.data + i * to.stride;
      if (!accumulate) {
        std::memcpy(target, source, static_cast<size_t>(bytes));
        continue;
      }
      const auto* x = reinterpret_cast<const float*>(source);
      auto* y = reinterpret_cast<float*>(target);
      for (int64_t j = 0; j < bytes / 4; ++j) y[j] += x[j];
    }
  });
}

// The indices [begin, begin + extent) of a whole's axis.
struct Stretch {
  int axis = 0;
  int64_t begin = 0;
  int64_t extent = 0;
};

// Of the local operands of the calls at a site, in order, when they follow one another along
// `axis`.
inline std::vector<Stretch> stretches_of(const std::vector<ValueSpec>& parts, int axis) {
  std::vector<Stretch> stretches;
  int64_t begin = 0;
  for (const ValueSpec& part : parts) {
    stretches.push_back({axis, begin, part.shape[axis]});
    begin += part.shape[axis];
  }
  return stretches;
}

// Copies (or adds) the stretch of `whole` into `part`, dense, or `part` into the stretch, where
// null counts as zeros. Either may be empty.
inline void take_stretch(const TensorView& whole, const Stretch& stretch, std::byte* part,
                         bool accumulate) {
  const Folded folded = fold(whole.shape, stretch.axis);
  const int64_t step = folded.inner * static_cast<int64_t>(size_of(whole.dtype));
  if (stretch.extent * step == 0) return;
  const Rows rows{whole.data + stretch.begin * step, folded.length * step};
  move_rows(rows, {part, stretch.extent * step}, folded.outer, stretch.extent * step, accumulate);
}

inline void put_stretch(std::byte* part, const TensorView& whole, const Stretch& stretch,
                        bool accumulate) {
  const Folded folded = fold(whole.shape, stretch.axis);
  const int64_t step = folded.inner * static_cast<int64_t>(size_of(whole.dtype));
  const int64_t bytes = stretch.extent * step;
  if (bytes == 0) return;
  const Rows rows{whole.data + stretch.begin * step, folded.length * step};
  if (part != nullptr)
    move_rows({part, bytes}, rows, folded.outer, bytes, accumulate);
  else if (!accumulate)
    for (int64_t i = 0; i < folded.outer; ++i)
      std::memset(rows.data + i * rows.stride, 0, static_cast<size_t>(bytes));
}

}  // namespace kerf::ops::cpu
