// An operand that is repeated over a larger shape, as NumPy broadcasts, for bodies.
#pragma once

#include "ops/cuda/launch.cuh"
#include "ops/tensor.h"

namespace kerf::ops::cuda {

// Axes, the last one first, each with how far apart neighbours lie on either side.
struct AxisSteps {
  int64_t extent[Shape::kMaxRank] = {};
  int64_t whole[Shape::kMaxRank] = {};
  int64_t operand[Shape::kMaxRank] = {};
  int rank = 0;

  void add(int64_t count, int64_t whole_stride, int64_t operand_stride) {
    extent[rank] = count;
    whole[rank] = whole_stride;
    operand[rank++] = operand_stride;
  }
  int64_t elements() const {
    int64_t product = 1;
    for (int i = 0; i < rank; ++i) product *= extent[i];
    return product;
  }
  // Of combination `i` of the axes' indices.
  KERF_DEVICE int64_t whole_at(int64_t i) const { return at(i, whole); }
  KERF_DEVICE int64_t operand_at(int64_t i) const { return at(i, operand); }

 private:
  KERF_DEVICE int64_t at(int64_t i, const int64_t* strides) const {
    int64_t offset = 0;
    for (int axis = 0; axis < rank; ++axis) {
      offset += i % extent[axis] * strides[axis];
      i /= extent[axis];
    }
    return offset;
  }
};

// The axes of `whole` that the operand has, and those over which it is repeated.
struct Broadcast {
  AxisSteps all;
  AxisSteps own;
  AxisSteps repeated;

  Broadcast(const Shape& operand, const Shape& of) {
    const int shift = of.rank() - operand.rank();
    int64_t stride = 1;
    int64_t whole_stride = 1;
    for (int axis = of.rank() - 1; axis >= 0; --axis) {
      const int64_t here = axis < shift ? 1 : operand[axis - shift];
      const bool repeats = here == 1;
      all.add(of[axis], whole_stride, repeats ? 0 : stride);
      (repeats ? repeated : own).add(of[axis], whole_stride, repeats ? 0 : stride);
      stride *= here;
      whole_stride *= of[axis];
    }
  }
};

}  // namespace kerf::ops::cuda
