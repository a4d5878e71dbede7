// The products of matrices that a MatMul is made of, for every kind of device: as few as the stacks
// allow.
//
// Stack axes that both operands have make a batch of products, as long as they are the last ones;
// or those that only A has are more rows of one product; or, for who multiplies one matrix with
// many, those that only B has make a batch. Outside of these the products are done one after
// another, in the order of the stacks; so gradients of a repeated operand are summed in that order.
// Plain values.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "ops/tensor.h"

namespace kerf::ops {

// The extent of an operand along stack axis `stack` of `stacks`: 1 where it is repeated.
inline int64_t stack_extent(const Shape& operand, int stacks, int stack) {
  const int axis = stack - stacks + operand.rank() - 2;
  return axis < 0 ? 1 : operand[axis];
}

// How far apart, in matrices, an operand's stacks lie; 0 along axes that it repeats.
inline std::array<int64_t, Shape::kMaxRank> stack_strides(const Shape& operand, int stacks) {
  std::array<int64_t, Shape::kMaxRank> strides{};
  int64_t next = 1;
  for (int i = stacks - 1; i >= 0; --i) {
    const int64_t extent = stack_extent(operand, stacks, i);
    strides[static_cast<size_t>(i)] = extent == 1 ? 0 : next;
    next *= extent;
  }
  return strides;
}

// A vector as a row on the left, as a column on the right.
inline Shape as_matrix(const Shape& operand, bool left) {
  if (operand.rank() != 1) return operand;
  return left ? Shape{1, operand[0]} : Shape{operand[0], 1};
}

// Y with the axes that vectors of A and B have not given it.
inline Shape with_vector_axes(const Shape& a, const Shape& b, const Shape& y) {
  std::array<int64_t, Shape::kMaxRank + 2> extents{};
  const int given = (a.rank() == 1 ? 0 : 1) + (b.rank() == 1 ? 0 : 1);
  const int stacks = y.rank() - given;
  std::copy_n(y.begin(), stacks, extents.begin());
  auto rank = static_cast<size_t>(stacks);
  extents[rank++] = a.rank() == 1 ? 1 : y[stacks];
  extents[rank++] = b.rank() == 1 ? 1 : y[y.rank() - 1];
  return Shape(std::span<const int64_t>(extents.data(), rank));
}

// The products of one call: `outer` stack axes one by one, each of `batch` products of m x k by k x
// n, whose A is one and the same where it is repeated.
struct StackedProducts {
  // What becomes of a matrix of A that many of B are multiplied with.
  enum class RepeatedA : uint8_t { kOneByOne, kInBatch };

  StackedProducts(const Shape& a, const Shape& b, const Shape& y,
                  RepeatedA repeated = RepeatedA::kOneByOne)
      : StackedProducts(repeated, as_matrix(a, true), as_matrix(b, false),
                        with_vector_axes(a, b, y)) {}

  // Of matrices only.
  StackedProducts(RepeatedA repeated, const Shape& a, const Shape& b, const Shape& y)
      : outer(y.rank() - 2),
        m(a[a.rank() - 2]),
        n(b[b.rank() - 1]),
        k(a[a.rank() - 1]),
        a_matrix(m * k),
        b_matrix(k * n),
        y_matrix(m * n),
        a_strides(stack_strides(a, outer)),
        b_strides(stack_strides(b, outer)) {
    const int stacks = outer;
    for (int i = 0; i < stacks; ++i) extents[static_cast<size_t>(i)] = y[i];
    const auto last_has = [&](const Shape& operand) {
      return stack_extent(operand, stacks, outer - 1) == y[outer - 1];
    };
    while (outer > 0 && last_has(a) && stack_extent(b, stacks, outer - 1) == 1) m *= y[--outer];
    if (m != a[a.rank() - 2]) return;
    while (outer > 0 && last_has(a) && last_has(b)) batch *= y[--outer];
    if (batch > 1 || repeated == RepeatedA::kOneByOne) return;
    while (outer > 0 && stack_extent(a, stacks, outer - 1) == 1 && last_has(b)) batch *= y[--outer];
    repeats_a = batch > 1;
  }

  // Calls visit(offsets of A, B and Y in elements, whether A's and whether B's matrices are seen
  // for the first time).
  template <class Visit>
  void for_each(const Visit& visit) const {
    std::array<int64_t, Shape::kMaxRank> at{};
    int64_t inner = 1;  // matrices of Y within one visit
    for (int i = outer; i < Shape::kMaxRank && extents[static_cast<size_t>(i)] >= 0; ++i)
      inner *= extents[static_cast<size_t>(i)];
    for (int64_t y = 0;; y += inner * y_matrix) {
      int64_t a = 0;
      int64_t b = 0;
      bool first_of_a = true;
      bool first_of_b = true;
      for (size_t i = 0; i < static_cast<size_t>(outer); ++i) {
        a += at[i] * a_strides[i] * a_matrix;
        b += at[i] * b_strides[i] * b_matrix;
        first_of_a = first_of_a && (a_strides[i] != 0 || at[i] == 0);
        first_of_b = first_of_b && (b_strides[i] != 0 || at[i] == 0);
      }
      visit(a, b, y, first_of_a, first_of_b);
      int axis = outer - 1;
      for (; axis >= 0; --axis) {
        int64_t& index = at[static_cast<size_t>(axis)];
        if (++index < extents[static_cast<size_t>(axis)]) break;
        index = 0;
      }
      if (axis < 0) return;
    }
  }

  int outer;
  int64_t batch = 1;
  bool repeats_a = false;
  int64_t m, n, k;
  int64_t a_matrix, b_matrix, y_matrix;
  std::array<int64_t, Shape::kMaxRank> a_strides, b_strides;
  std::array<int64_t, Shape::kMaxRank> extents = [] {
    std::array<int64_t, Shape::kMaxRank> none{};
    none.fill(-1);
    return none;
  }();
};

}  // namespace kerf::ops
