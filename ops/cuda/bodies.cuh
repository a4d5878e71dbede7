// Bodies that many kernels use.
#pragma once

#include "ops/cuda/launch.cuh"
#include "ops/tensor.h"

namespace kerf::ops::cuda {

// What a body that sums terms has to say of sums.
template <class T>
struct Adding {
  using Value = T;
  KERF_DEVICE static T zero() { return 0; }
  KERF_DEVICE static T join(T a, T b) { return a + b; }
};

// to = from, or to += from.
template <class T>
struct CopyOrAdd {
  const T* from;
  T* to;
  bool accumulate;
  KERF_DEVICE void operator()(int64_t i) const { to[i] = accumulate ? to[i] + from[i] : from[i]; }
};

inline void copy_or_add(const Queue& queue, const float* from, int64_t count, float* to,
                        bool accumulate) {
  if (accumulate)
    for_each(queue, count, CopyOrAdd<float>{from, to, true});
  else if (count > 0 && from != to)
    queue.runtime_stream().copy(to, from, static_cast<size_t>(count) * sizeof(float));
}

inline void clear(const Queue& queue, const TensorView& tensor) {
  queue.runtime_stream().fill_zero(tensor.data, tensor.bytes());
}

// What a gradient that may add does with one entry.
KERF_DEVICE void put(float* to, bool accumulate, float gradient) {
  *to = accumulate ? *to + gradient : gradient;
}

}  // namespace kerf::ops::cuda
