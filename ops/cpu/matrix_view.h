// Where the elements of a product's matrices lie. Plain values.
#pragma once

#include "ops/cpu/matmul_problem.h"

namespace kerf::ops::cpu {

// Where element (row, column) of a matrix lies.
struct MatrixView {
  const float* data;
  int64_t row_step;
  int64_t column_step;
  MatrixView at(int64_t row, int64_t column) const {
    return {data + row * row_step + column * column_step, row_step, column_step};
  }
  MatrixView transposed() const { return {data, column_step, row_step}; }
};

inline MatrixView view_of(const Matrix& matrix, int64_t stride, int64_t rows, int64_t columns) {
  if (matrix.transposed) return {matrix.data, 1, stride == 0 ? rows : stride};
  return {matrix.data, stride == 0 ? columns : stride, 1};
}

struct ProductExtents {
  int64_t rows;
  int64_t columns;
  int64_t terms;
};

// What a tile's sums are added to.
struct ProductTile {
  float* data;
  int64_t row_step;
  float alpha;
  bool adds;          // to what is there
  const float* bias;  // null: none
  ProductTile at(int64_t row, int64_t column) const {
    return {data + row * row_step + column, row_step, alpha, adds,
            bias == nullptr ? nullptr : bias + column};
  }
  // Of some of the terms: all but the first are added, and the bias comes with the last.
  ProductTile of_terms(bool first, bool last) const {
    return {data, row_step, alpha, adds || !first, last ? bias : nullptr};
  }
};

}  // namespace kerf::ops::cpu
