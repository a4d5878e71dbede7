// The same matrix by rows. A pure function, O(entries).
#pragma once

#include "apps/data/sparse_columns.h"

namespace kerf::apps {

inline SparseColumns transposed(const SparseColumns& matrix) {
  SparseColumns other;
  other.rows = matrix.columns;
  other.columns = matrix.rows;
  other.begins.assign(static_cast<size_t>(matrix.rows) + 1, 0);
  for (const int32_t row : matrix.row) ++other.begins[static_cast<size_t>(row) + 1];
  for (size_t i = 1; i < other.begins.size(); ++i) other.begins[i] += other.begins[i - 1];
  other.row.resize(matrix.row.size());
  other.values.resize(matrix.values.size());
  std::vector<int64_t> next = other.begins;
  for (int64_t column = 0; column < matrix.columns; ++column) {
    const auto rows = matrix.rows_of(column);
    const auto values = matrix.values_of(column);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto place = static_cast<size_t>(next[static_cast<size_t>(rows[i])]++);
      other.row[place] = static_cast<int32_t>(column);
      other.values[place] = values[i];
    }
  }
  return other;
}

}  // namespace kerf::apps
