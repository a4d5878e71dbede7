// Tensors that are stretches of a whole along one axis: what Split takes apart and Concat puts
// together. Any element type; only float32 can be added.
#pragma once

#include <vector>

#include "ops/cpu/walk.h"
#include "ops/folded.h"

namespace kerf::ops::cpu {

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

// From the stretch of a whole into a part, dense.
inline Walk stretch_walk(const Shape& whole, const Stretch& stretch) {
  const Folded folded = fold(whole, stretch.axis);
  const int64_t row = stretch.extent * folded.inner;
  Walk walk;
  walk.start(stretch.begin * folded.inner, 0);
  walk.add({folded.outer, folded.length * folded.inner, row});
  walk.add({row, 1, 1});
  return walk;
}

// Copies `from` to `to`, or adds it as float32.
inline void copy_or_add(const Walk& walk, DType dtype, const std::byte* from, std::byte* to,
                        bool accumulate) {
  if (accumulate)
    add(walk, reinterpret_cast<const float*>(from), reinterpret_cast<float*>(to));
  else
    copy(walk, from, to, size_of(dtype));
}

// The stretch of `whole` into `part`, or `part` into the stretch, where null counts as zeros.
// Either may be empty.
inline void take_stretch(const TensorView& whole, const Stretch& stretch, std::byte* part,
                         bool accumulate) {
  copy_or_add(stretch_walk(whole.shape, stretch), whole.dtype, whole.data, part, accumulate);
}

inline void put_stretch(const std::byte* part, const TensorView& whole, const Stretch& stretch,
                        bool accumulate) {
  const Walk walk = stretch_walk(whole.shape, stretch).turned();
  if (part != nullptr) {
    copy_or_add(walk, whole.dtype, part, whole.data, accumulate);
  } else if (!accumulate && !walk.empty()) {
    constexpr uint64_t kZero = 0;
    Walk zeros;  // of one element, again and again
    zeros.start(0, walk.to());
    for (const WalkAxis& axis : walk) zeros.add({axis.extent, 0, axis.to});
    copy(zeros, reinterpret_cast<const std::byte*>(&kZero), whole.data, size_of(whole.dtype));
  }
}

}  // namespace kerf::ops::cpu
