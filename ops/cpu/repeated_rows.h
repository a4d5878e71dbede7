// The elements of a tensor in order, beside those of operands that are repeated over it as NumPy
// broadcasts. All are dense; neighbouring axes along which every operand behaves alike are one.
#pragma once

#include <algorithm>
#include <array>

#include "ops/tensor.h"

namespace kerf::ops::cpu {

template <size_t kOperands>
class RepeatedRows {
 public:
  using Offsets = std::array<int64_t, kOperands>;

  RepeatedRows(const Shape& whole, const std::array<Shape, kOperands>& operands) {
    Offsets strides;
    strides.fill(1);
    for (int axis = whole.rank() - 1; axis >= 0; --axis) {
      Axis next{whole[axis], {}};
      for (size_t i = 0; i < kOperands; ++i) {
        const int own_axis = axis - whole.rank() + operands[i].rank();
        const int64_t own = own_axis < 0 ? 1 : operands[i][own_axis];
        next.strides[i] = own == 1 ? 0 : strides[i];
        strides[i] *= own;
      }
      if (next.extent != 1) append(next);
    }
    if (count_ > 0) return;
    axes_[count_++].strides.fill(1);
  }

  // Of the last axis: 0 where the operand is repeated, else 1.
  int64_t stride(size_t operand) const { return axes_[0].strides[operand]; }

  // Calls row(at, offsets, count) for each stretch of [begin, end) along the last axis, in order:
  // `count` elements from `at` on, and where those of the operands begin.
  template <class Row>
  void visit(int64_t begin, int64_t end, const Row& row) const {
    if (begin == end) return;  // an axis may be empty
    std::array<int64_t, Shape::kMaxRank> index{};
    int64_t left = begin;
    for (size_t axis = 0; axis < count_; ++axis) {
      index[axis] = left % axes_[axis].extent;
      left /= axes_[axis].extent;
    }
    while (begin < end) {
      Offsets offsets{};
      for (size_t axis = 0; axis < count_; ++axis)
        for (size_t i = 0; i < kOperands; ++i) offsets[i] += index[axis] * axes_[axis].strides[i];
      const int64_t some = std::min(end - begin, axes_[0].extent - index[0]);
      row(begin, offsets, some);
      begin += some;
      index[0] = 0;
      for (size_t axis = 1; axis < count_ && ++index[axis] == axes_[axis].extent; ++axis)
        index[axis] = 0;
    }
  }

 private:
  struct Axis {
    int64_t extent = 1;
    Offsets strides{};
  };

  void append(const Axis& next) {
    if (count_ > 0) {
      Axis& last = axes_[count_ - 1];
      bool alike = true;
      for (size_t i = 0; i < kOperands; ++i)
        alike = alike && next.strides[i] == last.strides[i] * last.extent &&
                (next.strides[i] == 0) == (last.strides[i] == 0);
      if (alike) {
        last.extent *= next.extent;
        return;
      }
    }
    axes_[count_++] = next;
  }

  std::array<Axis, Shape::kMaxRank> axes_{};  // the last axis first
  size_t count_ = 0;
};

}  // namespace kerf::ops::cpu
