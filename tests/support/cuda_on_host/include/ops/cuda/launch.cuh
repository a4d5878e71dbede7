// The twin of ops/cuda/launch.cuh: bodies are run by the host, with the sums in the same order.
//
// for_each() goes down, so that a body that leans on the order of indices is found out; launches
// are done when the stream's turn comes, with the body as it was copied.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>

#include "ops/cuda/queue.h"
#include "tests/support/cuda_on_host/gpu.h"

#define KERF_DEVICE inline

namespace kerf::ops::cuda {

inline constexpr int kLanes = 1024;
inline constexpr size_t kMostParameters = 4096;  // bytes

template <class Value, class Term, class Join>
Value joined(int64_t length, const Value& zero, const Term& term, const Join& join) {
  std::array<Value, kLanes> lanes;
  const auto used = static_cast<size_t>(std::clamp<int64_t>(length, 1, kLanes));
  std::fill_n(lanes.begin(), used, zero);
  for (size_t lane = 0; lane < used; ++lane)
    for (auto i = static_cast<int64_t>(lane); i < length; i += kLanes)
      lanes[lane] = join(lanes[lane], term(i));
  // Those beyond are zero, which must change nothing: it is joined once.
  lanes[0] = join(lanes[0], zero);
  for (size_t width = kLanes / 2; width > 0; width /= 2)
    for (size_t lane = 0; lane < width && lane + width < used; ++lane)
      lanes[lane] = join(lanes[lane], lanes[lane + width]);
  return lanes[0];
}

template <class Body, class Work>
void launch_on_host(const Queue& queue, const Body& body, const Work& work) {
  static_assert(sizeof(Body) <= kMostParameters);
  tests::launch_on_gpu(queue.stream(), body, work);
  queue.check_launch();
}

template <class Body>
void for_each(const Queue& queue, int64_t count, const Body& body) {
  if (count <= 0) return;
  launch_on_host(queue, body, [body, count] {
    for (int64_t i = count; i-- > 0;) body(i);
  });
}

template <class Body>
void reduce_rows(const Queue& queue, int64_t rows, const Body& body) {
  if (rows <= 0) return;
  launch_on_host(queue, body, [body, rows] {
    for (int64_t row = rows; row-- > 0;)
      body.finish(row, joined<typename Body::Value>(
                           body.length(row), Body::zero(),
                           [&](int64_t i) { return body.term(row, i); }, Body::join));
  });
}

template <class Body>
void reduce_rows_then_each(const Queue& queue, int64_t rows, const Body& body) {
  if (rows <= 0) return;
  launch_on_host(queue, body, [body, rows] {
    for (int64_t row = rows; row-- > 0;) {
      const int64_t length = body.length(row);
      const auto value = joined<typename Body::Value>(
          length, Body::zero(), [&](int64_t i) { return body.term(row, i); }, Body::join);
      body.finish(row, value);
      for (int64_t i = length; i-- > 0;) body.each(row, i, value);
    }
  });
}

template <class Body>
void reduce_rows_twice(const Queue& queue, int64_t rows, const Body& body) {
  if (rows <= 0) return;
  launch_on_host(queue, body, [body, rows] {
    for (int64_t row = rows; row-- > 0;) {
      const int64_t length = body.length(row);
      const auto first = joined<typename Body::First>(
          length, Body::first_zero(), [&](int64_t i) { return body.first(row, i); },
          Body::join_first);
      const auto second = joined<typename Body::Second>(
          length, Body::second_zero(), [&](int64_t i) { return body.second(row, i, first); },
          Body::join_second);
      body.finish(row, first, second);
      for (int64_t i = length; i-- > 0;) body.each(row, i, first, second);
    }
  });
}

}  // namespace kerf::ops::cuda
