// Tables of numbers as text, fields divided by commas:
//
//   height,weight     names of the columns: a first line of which no field begins as a number does
//   1.5,2
//   -0.25,1e3
//
// Every line has as many fields; empty lines are skipped. Everything in a file is checked; a file
// is gone through once, a piece at a time. Every function throws Error{kUsage} at "FILE:LINE" for
// what is no such file. Pure functions.
#pragma once

#include <vector>

#include "apps/data/byte_source.h"
#include "apps/data/sparse_columns.h"
#include "ops/layout.h"

namespace kerf::apps {

// Goes through the whole file. Entries are all its numbers.
MatrixSize read_csv_size(const ByteSource& file);

// The given rows of it, which it must have; zeros are left out.
SparseColumns read_csv(const ByteSource& file, ops::Range rows);

// A table of one column.
std::vector<double> read_csv_column(const ByteSource& file);

}  // namespace kerf::apps
