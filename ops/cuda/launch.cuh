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
// the row's length alone, so every run gives the same bits, however many threads share the lanes:
// 128 for a row where there are many rows, one a lane where there are few. join(value, zero())
// must be the value. A body is a plain value of at most 4 KiB, copied at the launch.
// tests/support/cuda_on_host/ has a twin of this header, with plain loops in the same order, under
// which the same sources are proved without a GPU.
//
// Called by the compute thread, with the queue's device current.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <type_traits>

#include "ops/cuda/queue.h"

#define KERF_DEVICE __device__ __forceinline__

namespace kerf::ops::cuda {

inline constexpr int kThreads = 256;  // of a block of for_each
inline constexpr int kLanes = 1024;   // of a row
inline constexpr int64_t kMostBlocks = 1 << 16;
// Of a block that sums up rows: where rows are enough for all processors, and where they are not.
inline constexpr int kThreadsOfMany = 128;
inline constexpr int kThreadsOfFew = kLanes;
inline constexpr int64_t kMany = 1024;  // rows

template <class Body>
__global__ void __launch_bounds__(kThreads) run_each(const Body body, const int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step)
    body(i);
}

// The whole row's value, known to every thread of the block afterwards. Thread t has the lanes t,
// t + kBlock, ... in registers, and joins those among them as the tree does; `shared` has the rest.
template <int kBlock, class Value, class Term, class Join>
__device__ Value joined(Value* shared, const int64_t length, const Value zero, const Term& term,
                        const Join& join) {
  constexpr int kOwn = kLanes / kBlock;
  const int thread = static_cast<int>(threadIdx.x);
  Value own[kOwn];
#pragma unroll
  for (int k = 0; k < kOwn; ++k) own[k] = zero;
  for (int64_t begin = thread; begin < length; begin += kLanes) {
#pragma unroll
    for (int k = 0; k < kOwn; ++k) {
      const int64_t i = begin + k * kBlock;
      if (i < length) own[k] = join(own[k], term(i));
    }
  }
#pragma unroll
  for (int width = kOwn / 2; width > 0; width /= 2) {
#pragma unroll
    for (int k = 0; k < width; ++k) own[k] = join(own[k], own[k + width]);
  }
  shared[thread] = own[0];
  __syncthreads();
  for (int width = kBlock / 2; width > 0; width /= 2) {
    if (thread < width) shared[thread] = join(shared[thread], shared[thread + width]);
    __syncthreads();
  }
  const Value whole = shared[0];
  __syncthreads();  // before the next row writes
  return whole;
}

template <int kBlock, class Body>
__global__ void __launch_bounds__(kBlock) run_reduction(const Body body, const int64_t rows) {
  using Value = typename Body::Value;
  __shared__ Value lanes[kBlock];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const Value value = joined<kBlock>(
        lanes, body.length(row), Body::zero(), [&](int64_t i) { return body.term(row, i); },
        [](const Value& a, const Value& b) { return Body::join(a, b); });
    if (threadIdx.x == 0) body.finish(row, value);
  }
}

template <int kBlock, class Body>
__global__ void __launch_bounds__(kBlock)
    run_reduction_then_each(const Body body, const int64_t rows) {
  using Value = typename Body::Value;
  __shared__ Value lanes[kBlock];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t length = body.length(row);
    const Value value = joined<kBlock>(
        lanes, length, Body::zero(), [&](int64_t i) { return body.term(row, i); },
        [](const Value& a, const Value& b) { return Body::join(a, b); });
    if (threadIdx.x == 0) body.finish(row, value);
    for (int64_t i = threadIdx.x; i < length; i += kBlock) body.each(row, i, value);
  }
}

template <int kBlock, class Body>
__global__ void __launch_bounds__(kBlock) run_rows(const Body body, const int64_t rows) {
  using First = typename Body::First;
  using Second = typename Body::Second;
  __shared__ First first_lanes[kBlock];
  __shared__ Second second_lanes[kBlock];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t length = body.length(row);
    const First first = joined<kBlock>(
        first_lanes, length, Body::first_zero(), [&](int64_t i) { return body.first(row, i); },
        [](const First& a, const First& b) { return Body::join_first(a, b); });
    const Second second = joined<kBlock>(
        second_lanes, length, Body::second_zero(),
        [&](int64_t i) { return body.second(row, i, first); },
        [](const Second& a, const Second& b) { return Body::join_second(a, b); });
    if (threadIdx.x == 0) body.finish(row, first, second);
    for (int64_t i = threadIdx.x; i < length; i += kBlock) body.each(row, i, first, second);
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

// launch(blocks, threads of each), the latter known when compiled.
template <class Launch>
void launch_rows(const Queue& queue, int64_t rows, const Launch& launch) {
  if (rows <= 0) return;
  const auto blocks = static_cast<unsigned>(std::min(rows, kMostBlocks));
  if (rows < kMany)
    launch(blocks, std::integral_constant<int, kThreadsOfFew>());
  else
    launch(blocks, std::integral_constant<int, kThreadsOfMany>());
  queue.check_launch();
}

// For every row its terms joined, and finish(row, value); of a row of length 0 zero().
template <class Body>
void reduce_rows(const Queue& queue, int64_t rows, const Body& body) {
  launch_rows(queue, rows, [&](unsigned blocks, auto threads) {
    run_reduction<threads()><<<blocks, threads(), 0, queue.stream()>>>(body, rows);
  });
}

// The same, then each(row, i, value) for every index, which may overwrite what the terms read at i.
template <class Body>
void reduce_rows_then_each(const Queue& queue, int64_t rows, const Body& body) {
  launch_rows(queue, rows, [&](unsigned blocks, auto threads) {
    run_reduction_then_each<threads()><<<blocks, threads(), 0, queue.stream()>>>(body, rows);
  });
}

// For every row two such values, the second's terms knowing the first, then finish(row, first,
// second), and each(row, i, first, second) for every index: softmax, layer normalisation. each()
// may overwrite what the terms read at i.
template <class Body>
void reduce_rows_twice(const Queue& queue, int64_t rows, const Body& body) {
  launch_rows(queue, rows, [&](unsigned blocks, auto threads) {
    run_rows<threads()><<<blocks, threads(), 0, queue.stream()>>>(body, rows);
  });
}

}  // namespace kerf::ops::cuda
