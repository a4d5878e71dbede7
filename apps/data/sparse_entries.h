// Entries of a sparse matrix in any order, which become its columns where they lie: besides the
// result that takes four bytes an entry, and the largest column once more. One owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/data/sparse_columns.h"
#include "ops/layout.h"

namespace kerf::apps {

// Whether so many rows or columns are no more than a file of so many bytes may claim. A few bytes
// must not cost gigabytes of empty columns.
bool may_claim(int64_t extent, size_t bytes);
// Throws Error{kUsage} at `origin` unless a matrix of that size has such rows.
void expect_rows(ops::Range rows, const MatrixSize& size, const std::string& origin);

// How many of the entries some of so many rows have where they are spread evenly, and some more:
// what to reserve.
size_t likely_entries(int64_t entries, ops::Range rows, int64_t of);

class SparseEntries {
 public:
  void reserve(size_t entries);
  void add(int64_t row, int64_t column, double value) {
    row_.push_back(static_cast<int32_t>(row));
    column_.push_back(static_cast<int32_t>(column));
    values_.push_back(value);
  }
  // Of a matrix in which all of them are. Those of one place are side by side.
  SparseColumns in_columns(int64_t rows, int64_t columns) &&;

 private:
  void move_to_columns(const std::vector<int64_t>& begins);
  void sort_column(size_t begin, size_t end);

  std::vector<int32_t> row_;
  std::vector<int32_t> column_;
  std::vector<double> values_;
};

struct Place {
  int64_t row = 0;
  int64_t column = 0;
  bool operator==(const Place&) const = default;
};

// The first place that has two entries.
std::optional<Place> place_taken_twice(const SparseColumns& matrix);

}  // namespace kerf::apps
