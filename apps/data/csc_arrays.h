// Sparse matrices as arrays of NumPy, and columns: an archive (.npz) as scipy.sparse.save_npz
// writes a CSC matrix, or numpy.savez its parts,
//
//   shape     2 integers, rows and columns
//   indptr    columns + 1 integers: column j is elements [indptr[j], indptr[j + 1]) of the others
//   indices   its rows, which ascend in a column
//   data      its values, float32 or float64
//   format    b'csc', where it is there
//
// and an array (.npy) of float32 or float64 with one axis, or two of which the second is 1.
// Integers are int32 or int64. Everything is checked; the long arrays are read once, in pieces.
// Functions throw Error{kUsage} at "FILE: MEMBER.npy" for what is no such file. Pure functions.
#pragma once

#include <memory>
#include <vector>

#include "apps/data/byte_source.h"
#include "apps/data/sparse_columns.h"
#include "ops/layout.h"

namespace kerf::apps {

// From the heads of its arrays, and shape.
MatrixSize read_csc_size(const std::shared_ptr<const ByteSource>& archive);

// The given rows of it, which it must have.
SparseColumns read_csc_arrays(const std::shared_ptr<const ByteSource>& archive, ops::Range rows);

std::vector<double> read_column_array(const std::shared_ptr<const ByteSource>& file);

}  // namespace kerf::apps
