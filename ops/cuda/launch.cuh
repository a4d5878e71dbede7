// Work on a GPU, written as bodies over indices:
//
//   struct Scale {
//     float* y;
//     KERF_DEVICE void operator()(int64_t i) const { y[i] *= 2; }
//   };
//   for_each(queue, count, Scale{y});
//
//   struct Total {
//     const float* x;
//     int64_t columns;
//     double* to;
//     using Value = double;
//     KERF_DEVICE int64_t length(int64_t row) const { return columns; }
//     KERF_DEVICE Value term(int64_t row, int64_t i) const { return x[row * columns + i]; }
//     KERF_DEVICE static Value zero() { return 0; }
//     KERF_DEVICE static Value join(Value a, Value b) { return a + b; }
//     KERF_DEVICE void finish(int64_t row, Value sum) const { to[row] = sum; }
//   };
//   reduce_rows(queue, rows, Total{x, columns, to});
//
// A row is summed up in kLanes interleaved partial sums, which a tree joins: the order follows from
// the row's length alone, so every run gives the same bits. A body is a plain value of at most
// 4 KiB, copied at the launch. tests/support/cuda_on_host/ has a twin of this header, with plain
// loops in the same order, under which the same sources are proved without a GPU.
//
// Called by the compute thread, with the queue's device current.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "ops/cuda/queue.h"

#define KERF_DEVICE __device__ __forceinline__

namespace kerf::ops::cuda {

inline constexpr int kThreads = 256;  // of a block of for_each
inline constexpr int kLanes = 128;    // of a row
inline constexpr int64_t kMostBlocks = 1 << 16;

template <class Body>
__global__ void __launch_bounds__(kThreads) run_each(const Body body, const int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step)
    body(i);
}

// The whole row's value, known to every thread of the block afterwards.
template <class Value, class Term, class Join>
__device__ Value joined(Value* lanes, const int64_t length, const Value zero, const Term& term,
                        const Join& join) {
  const int lane = static_cast<int>(threadIdx.x);
  Value mine = zero;
  for (int64_t i = lane; i < length; i += kLanes) mine = join(mine, term(i));
  lanes[lane] = mine;
  __syncthreads();
  for (int width = kLanes / 2; width > 0; width /= 2) {
    if (lane < width) lanes[lane] = join(lanes[lane], lanes[lane + width]);
    __syncthreads();
  }
  const Value whole = lanes[0];
  __syncthreads();  // before the next row writes
  return whole;
}

template <class Body>
__global__ void __launch_bounds__(kLanes) run_reduction(const Body body, const int64_t rows) {
  using Value = typename Body::Value;
  __shared__ Value lanes[kLanes];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const Value value = joined(
        lanes, body.length(row), Body::zero(), [&](int64_t i) { return body.term(row, i); },
        [](const Value& a, const Value& b) { return Body::join(a, b); });
    if (threadIdx.x == 0) body.finish(row, value);
  }
}

template <class Body>
__global__ void __launch_bounds__(kLanes)
    run_reduction_then_each(const Body body, const int64_t rows) {
  using Value = typename Body::Value;
  __shared__ Value lanes[kLanes];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t length = body.length(row);
    const Value value = joined(
        lanes, length, Body::zero(), [&](int64_t i) { return body.term(row, i); },
        [](const Value& a, const Value& b) { return Body::join(a, b); });
    if (threadIdx.x == 0) body.finish(row, value);
    for (int64_t i = threadIdx.x; i < length; i += kLanes) body.each(row, i, value);
  }
}

template <class Body>
__global__ void __launch_bounds__(kLanes) run_rows(const Body body, const int64_t rows) {
  using First = typename Body::First;
  using Second = typename Body::Second;
  __shared__ First first_lanes[kLanes];
  __shared__ Second second_lanes[kLanes];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t length = body.length(row);
    const First first = joined(
        first_lanes, length, Body::first_zero(), [&](int64_t i) { return body.first(row, i); },
        [](const First& a, const First& b) { return Body::join_first(a, b); });
    const Second second = joined(
        second_lanes, length, Body::second_zero(),
        [&](int64_t i) { return body.second(row, i, first); },
        [](const Second& a, const Second& b) { return Body::join_second(a, b); });
    if (threadIdx.x == 0) body.finish(row, first, second);
    for (int64_t i = threadIdx.x; i < length; i += kLanes) body.each(row, i, first, second);
  }
}

// body(i) for every i in [0, count), in any order.
template <class Body>
void for_each(const Queue& queue, int64_t count, const Body& body) {
  if (count <= 0) return;
  const int64_t blocks = std::min((count + kThreads - 1) / kThreads, kMostBlocks);
  run_each<<<static_cast<unsigned>(blocks), kThreads, 0, queue.stream()>>>(body, count);
  queue.check_launch();
}

// For every row its terms joined, and finish(row, value); of a row of length 0 zero().
template <class Body>
void reduce_rows(const Queue& queue, int64_t rows, const Body& body) {
  if (rows <= 0) return;
  run_reduction<<<static_cast<unsigned>(std::min(rows, kMostBlocks)), kLanes, 0, queue.stream()>>>(
      body, rows);
  queue.check_launch();
}

// The same, then each(row, i, value) for every index, which may overwrite what the terms read at i.
template <class Body>
void reduce_rows_then_each(const Queue& queue, int64_t rows, const Body& body) {
  if (rows <= 0) return;
  const int64_t blocks = std::min(rows, kMostBlocks);
  run_reduction_then_each<<<static_cast<unsigned>(blocks), kLanes, 0, queue.stream()>>>(body, rows);
  queue.check_launch();
}

// For every row two such values, the second's terms knowing the first, then finish(row, first,
// second), and each(row, i, first, second) for every index: softmax, layer normalisation. each()
// may overwrite what the terms read at i.
template <class Body>
void reduce_rows_twice(const Queue& queue, int64_t rows, const Body& body) {
  if (rows <= 0) return;
  run_rows<<<static_cast<unsigned>(std::min(rows, kMostBlocks)), kLanes, 0, queue.stream()>>>(body,
                                                                                              rows);
  queue.check_launch();
}

}  // namespace kerf::ops::cuda
