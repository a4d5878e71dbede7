// The first of a list of indices that lies outside of a range: labels, and what Gather picks.
#pragma once

#include "ops/cuda/fault.cuh"
#include "ops/tensor.h"

namespace kerf::ops::cuda {

// Integers of either type.
struct Indices {
  const int64_t* wide;
  const int32_t* narrow;
  KERF_DEVICE int64_t operator[](int64_t i) const { return wide != nullptr ? wide[i] : narrow[i]; }
};

inline Indices indices_of(const TensorView& tensor) {
  if (tensor.dtype == DType::kInt32) return {nullptr, tensor.as<int32_t>()};
  return {tensor.i64(), nullptr};
}

struct FirstOutside {
  using Value = int64_t;
  Indices indices;
  int64_t count;
  int64_t begin;
  int64_t end;
  FaultPlace fault;
  KERF_DEVICE int64_t length(int64_t) const { return count; }
  KERF_DEVICE Value term(int64_t, int64_t i) const {
    return indices[i] < begin || indices[i] >= end ? i : count;
  }
  KERF_DEVICE static Value zero() { return INT64_MAX; }
  KERF_DEVICE static Value join(Value a, Value b) { return a < b ? a : b; }
  KERF_DEVICE void finish(int64_t, Value first) const {
    if (first < count) fault.keep(first, indices[first]);
  }
};

// Reports the first index that is not within [begin, end).
inline void check_indices(const Queue& queue, const FaultReport& report, const Call& call,
                          const TensorView& indices, int64_t begin, int64_t end) {
  if (indices.elements() == 0) return;
  reduce_rows(
      queue, 1,
      FirstOutside{indices_of(indices), indices.elements(), begin, end, fault_place(report, call)});
}

}  // namespace kerf::ops::cuda
