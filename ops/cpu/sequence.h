// Extents of one call of a recurrence, where rows lie in its operands, and what it multiplies.
#pragma once

#include <algorithm>

#include "ops/cpu/matrix_product.h"
#include "ops/operators/recurrent.h"
#include "ops/simd/simd.h"
#include "ops/workspace.h"

namespace kerf::ops::cpu {

struct Sequence {
  int64_t steps = 0;
  int64_t samples = 0;
  int64_t inputs = 0;
  int64_t hidden = 0;
  int64_t blocks = 0;  // of a row of gates
  int64_t directions = 0;
  bool samples_first = false;
  int64_t largest = 0;  // samples of the largest call

  Sequence(const Recurrent& op, const Shape& x, int64_t held_directions, int64_t largest_samples)
      : steps(x[op.samples_first() ? 1 : 0]),
        samples(samples_of(op, x)),
        inputs(x[2]),
        hidden(op.hidden()),
        blocks(op.gates()),
        directions(held_directions),
        samples_first(op.samples_first()),
        largest(largest_samples) {}

  static int64_t samples_of(const Recurrent& op, const Shape& x) {
    return x[op.samples_first() ? 0 : 1];
  }
  int64_t rows() const { return steps * samples; }
  int64_t gates() const { return blocks * hidden; }
  int64_t all_gates() const { return directions * rows() * gates(); }
  // Of direction `d`, step `t`.
  int64_t gate_row(int64_t d, int64_t t) const { return (d * rows() + t * samples) * gates(); }
  int64_t unit_row(int64_t d, int64_t t) const { return (d * rows() + t * samples) * hidden; }
  int64_t x_row(int64_t t, int64_t s) const {
    return (samples_first ? s * steps + t : t * samples + s) * inputs;
  }
  int64_t y_row(int64_t t, int64_t d, int64_t s) const {
    return (samples_first ? (s * steps + t) * directions + d : (t * directions + d) * samples + s) *
           hidden;
  }
  int64_t state_row(int64_t d, int64_t s) const {
    return (samples_first ? s * directions + d : d * samples + s) * hidden;
  }
  // Steps whose inputs are multiplied at once: enough rows to make it worth while. As many in a
  // call of fewer samples as in the largest, so that it takes no more memory.
  int64_t steps_at_once() const {
    constexpr int64_t kRows = 64;
    return std::clamp<int64_t>((kRows + largest - 1) / std::max<int64_t>(largest, 1), 1, steps);
  }

  // ---- products; of `count` blocks of a row of gates

  using Product = MatrixProduct::Problem;

  Product input_product(int64_t some_steps) const {
    return {.m = some_steps * samples, .n = gates(), .k = inputs};
  }
  // Added to rows of gates.
  Product recurrent_product(int64_t count) const {
    return {.m = samples,
            .n = count * hidden,
            .k = hidden,
            .accumulate = true,
            .strides = {0, 0, count == blocks ? 0 : gates()}};
  }
  // R h + b_R of all blocks, apart.
  Product apart_product() const { return {.m = samples, .n = gates(), .k = hidden}; }
  // Of dh; from rows of gates, or from rows of one block that lie apart.
  Product recurrent_gradient(int64_t count, bool accumulate, bool apart) const {
    return {.m = samples,
            .n = hidden,
            .k = count * hidden,
            .accumulate = accumulate,
            .strides = {count == blocks || apart ? 0 : gates(), 0, 0}};
  }
  Product x_product(bool accumulate) const {
    return {.m = rows(), .n = inputs, .k = gates(), .accumulate = accumulate};
  }
  Product weight_product(int64_t columns, int64_t count, bool accumulate, bool apart) const {
    return {.m = count * hidden,
            .n = columns,
            .k = rows(),
            .accumulate = accumulate,
            .strides = {count == blocks || apart ? 0 : gates(), 0, 0}};
  }

  // Of the one that takes most.
  size_t product_bytes(const Recurrent& op, int threads) const {
    size_t most = 0;
    const auto add = [&](const Product& product, bool transposed_a, bool transposed_b, bool bias) {
      most = std::max(
          most, MatrixProduct::workspace_bytes(product, transposed_a, transposed_b, bias, threads));
    };
    const bool biased = op.has(Recurrent::kB);
    const int64_t last = steps % steps_at_once();
    for (const int64_t some : {steps_at_once(), last == 0 ? steps_at_once() : last})
      add(input_product(some), false, true, biased);
    add(apart_product(), false, true, biased);
    for (const bool accumulate : {false, true}) {
      add(x_product(accumulate), false, false, false);
      add(weight_product(inputs, blocks, accumulate, false), true, false, false);
    }
    for (int64_t count = 1; count <= blocks; ++count) {
      add(recurrent_product(count), false, true, false);
      for (const bool accumulate : {false, true})
        for (const bool apart : {false, true}) {
          add(recurrent_gradient(count, accumulate, apart), false, false, false);
          add(weight_product(hidden, count, accumulate, apart), true, false, false);
        }
    }
    return most;
  }
};

// One direction of a call: the order of its steps.
struct Direction {
  int64_t index = 0;   // among those held here
  int64_t number = 0;  // among all
  bool back = false;
  int64_t steps = 0;
  int64_t step(int64_t processed) const { return back ? steps - 1 - processed : processed; }
};

// X with the samples of a step together.
inline const float* by_steps(const Sequence& q, const float* x, Workspace& workspace) {
  if (!q.samples_first) return x;
  auto* copy = workspace.take<float>(q.rows() * q.inputs);
  for (int64_t t = 0; t < q.steps; ++t)
    for (int64_t s = 0; s < q.samples; ++s)
      std::copy_n(x + q.x_row(t, s), q.inputs, copy + (t * q.samples + s) * q.inputs);
  return copy;
}

// The states of one direction, from and to rows by sample. Either may be null: zeros, not wanted.
inline void load_states(const Sequence& q, int64_t d, const float* from, float* to) {
  if (from == nullptr) std::fill_n(to, q.samples * q.hidden, 0.0F);
  for (int64_t s = 0; s < q.samples && from != nullptr; ++s)
    std::copy_n(from + q.state_row(d, s), q.hidden, to + s * q.hidden);
}
inline void copy_states(const Sequence& q, int64_t d, const float* from, float* to) {
  for (int64_t s = 0; s < q.samples && to != nullptr; ++s)
    std::copy_n(from + s * q.hidden, q.hidden, to + q.state_row(d, s));
}

// Calls row(sample) on as many threads as there are.
template <class Row>
void for_samples(const Sequence& q, const Row& row) {
  simd::parallel_pieces(q.samples, 1 + 2048 / q.hidden, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) row(s);
  });
}

}  // namespace kerf::ops::cpu
