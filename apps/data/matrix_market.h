// Matrices as text, in the Matrix Market exchange format:
//
//   %%MatrixMarket matrix coordinate real general
//   % a comment
//   3 2 4        rows, columns, entries
//   1 1 0.5      row, column, value: from 1, in any order, no place twice
//   ...
//
// Or `array`: rows and columns, then all values, column by column. Values are real, integer (that a
// double holds) or pattern (an entry is 1); of a symmetric matrix the entries on and below the
// diagonal are there, of a skew-symmetric one those below. Complex ones are refused.
// https://math.nist.gov/MatrixMarket/formats.html
//
// Everything in a file is checked; a file is gone through once, a piece at a time. Every function
// throws Error{kUsage} at "FILE:LINE" for what is no such file. Pure functions.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "apps/data/byte_source.h"
#include "apps/data/sparse_columns.h"
#include "ops/layout.h"

namespace kerf::apps {

// From its head alone.
MatrixSize read_matrix_market_size(const ByteSource& file);

// The given rows of it, which it must have. Lines of other rows are read, but a place of theirs
// that is there twice is a fault for who reads them. Of an array the zeros are left out.
SparseColumns read_matrix_market(const ByteSource& file, ops::Range rows);

// A matrix of one column, as many values as it has rows.
std::vector<double> read_dense_column(const ByteSource& file);

// Replace the file, atomically, by a general real matrix that reads back to the same doubles: by
// coordinates, or as an array of so many columns, whose values lie here row by row. Throw
// Error{kUsage} at the path, before anything is written, for a value that is not finite, and
// Error{kUnavailable} where the system refuses.
void write_matrix_market(const std::filesystem::path& path, const SparseColumns& matrix);
void write_matrix_market(const std::filesystem::path& path, std::span<const double> values,
                         int64_t columns = 1);

}  // namespace kerf::apps
