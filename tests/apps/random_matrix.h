// Sparse matrices to try readers with, and what is made of them. The same generator gives the same.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "apps/data/sparse_columns.h"
#include "runtime/format.h"

namespace kerf::tests {

// Of any magnitude, denormal ones and -0 among them.
inline double random_double(std::mt19937_64& random) {
  for (;;) {
    const uint64_t bits = random();
    double number = 0;
    std::memcpy(&number, &bits, sizeof(number));
    if (random() % 16 == 0) number = std::copysign(static_cast<double>(random() % 4), number);
    if (random() % 16 == 0) number = std::ldexp(number, -1060);
    if (std::isfinite(number)) return number;
  }
}

// About one place of `sparsity` has an entry.
inline apps::SparseColumns random_matrix(int64_t rows, int64_t columns, uint64_t sparsity,
                                         std::mt19937_64& random) {
  apps::SparseColumns matrix{rows, columns, {0}, {}, {}};
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i)
      if (random() % sparsity == 0) {
        matrix.row.push_back(static_cast<int32_t>(i));
        matrix.values.push_back(random_double(random));
      }
    matrix.begins.push_back(matrix.entries());
  }
  return matrix;
}

// Matrices of the same columns, the rows of one below those of the other.
inline apps::SparseColumns stacked(std::span<const apps::SparseColumns> parts) {
  apps::SparseColumns whole{0, parts.front().columns, {0}, {}, {}};
  for (int64_t j = 0; j < whole.columns; ++j) {
    int32_t above = 0;
    for (const apps::SparseColumns& part : parts) {
      for (const int32_t row : part.rows_of(j)) whole.row.push_back(above + row);
      for (const double value : part.values_of(j)) whole.values.push_back(value);
      above += static_cast<int32_t>(part.rows);
    }
    whole.rows = above;
    whole.begins.push_back(whole.entries());
  }
  return whole;
}

inline apps::SparseColumns without_zeros(const apps::SparseColumns& matrix) {
  apps::SparseColumns kept{matrix.rows, matrix.columns, {0}, {}, {}};
  for (int64_t j = 0; j < matrix.columns; ++j) {
    for (size_t i = 0; i < matrix.rows_of(j).size(); ++i)
      if (matrix.values_of(j)[i] != 0) {
        kept.row.push_back(matrix.rows_of(j)[i]);
        kept.values.push_back(matrix.values_of(j)[i]);
      }
    kept.begins.push_back(kept.entries());
  }
  return kept;
}

// Line by line, with commas between the numbers.
inline std::string table_of(const apps::SparseColumns& matrix) {
  std::vector<std::vector<double>> lines(static_cast<size_t>(matrix.rows),
                                         std::vector<double>(static_cast<size_t>(matrix.columns)));
  for (int64_t j = 0; j < matrix.columns; ++j)
    for (size_t i = 0; i < matrix.rows_of(j).size(); ++i)
      lines[static_cast<size_t>(matrix.rows_of(j)[i])][static_cast<size_t>(j)] =
          matrix.values_of(j)[i];
  std::string text;
  for (const std::vector<double>& line : lines) text += format("{}\n", fmt::join(line, ","));
  return text;
}

// `count` ascending cuts of [0, rows], its ends among them.
inline std::vector<int64_t> random_cuts(int64_t rows, size_t count, std::mt19937_64& random) {
  std::vector<int64_t> cuts{0, rows};
  while (cuts.size() < count)
    cuts.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(rows + 1)));
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

}  // namespace kerf::tests
