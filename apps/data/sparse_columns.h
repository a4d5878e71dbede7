// Sparse matrices by columns (CSC): what the readers of matrices give. Plain values; no threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kerf::apps {

// More rows or columns are none of ours: a row is told in four bytes.
inline constexpr int64_t kMostIndices = INT32_MAX;

struct MatrixSize {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t entries = 0;  // those that the file has, of a symmetric matrix about half
  bool operator==(const MatrixSize&) const = default;
};

// Some or all rows of a matrix; no place has two entries, an entry may be 0.
struct SparseColumns {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<int64_t> begins = {0};  // columns + 1: column j is [begins[j], begins[j + 1]) of both
  std::vector<int32_t> row;           // from 0, the first row that is kept; ascend in a column
  std::vector<double> values;         // finite

  int64_t entries() const { return std::ssize(row); }
  std::span<const int32_t> rows_of(int64_t column) const { return of(row, column); }
  std::span<const double> values_of(int64_t column) const { return of(values, column); }
  bool operator==(const SparseColumns&) const = default;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(rows, columns, begins, row, values);
  }

 private:
  template <class Element>
  std::span<const Element> of(const std::vector<Element>& all, int64_t column) const {
    const auto j = static_cast<size_t>(column);
    return std::span(all).subspan(static_cast<size_t>(begins[j]),
                                  static_cast<size_t>(begins[j + 1] - begins[j]));
  }
};

// Of a column with the values of its rows.
inline double product_of(const SparseColumns& matrix, int64_t column,
                         const std::vector<double>& vector) {
  const auto rows = matrix.rows_of(column);
  const auto values = matrix.values_of(column);
  double sum = 0;
  for (size_t i = 0; i < rows.size(); ++i) sum += values[i] * vector[static_cast<size_t>(rows[i])];
  return sum;
}
// vector += factor x column.
inline void add_column(const SparseColumns& matrix, int64_t column, double factor,
                       std::vector<double>& vector) {
  const auto rows = matrix.rows_of(column);
  const auto values = matrix.values_of(column);
  for (size_t i = 0; i < rows.size(); ++i)
    vector[static_cast<size_t>(rows[i])] += factor * values[i];
}

}  // namespace kerf::apps
