// Matrices and columns of them in files, by the ending of the file's name:
//
//   .mtx   matrices and columns: matrix_market.h
//   .csv   matrices and columns: csv.h
//   .npz   matrices: csc_arrays.h
//   .npy   columns: csc_arrays.h
//
// Every function throws Error{kUsage} that names the file for another ending, which lists the known
// ones, and for what is no such file. Pure functions.
#pragma once

#include <filesystem>
#include <vector>

#include "apps/data/byte_source.h"
#include "apps/data/sparse_columns.h"
#include "ops/layout.h"

namespace kerf::apps {

// Without reading the entries, but of a table.
MatrixSize matrix_size(const std::filesystem::path& path);
// The given rows of it, which it must have. What takes long says `working`.
SparseColumns read_matrix(const std::filesystem::path& path, ops::Range rows, Working working = {});
std::vector<double> read_column(const std::filesystem::path& path, Working working = {});

}  // namespace kerf::apps
