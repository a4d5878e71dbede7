// Rows with labels as text, as LIBSVM has them:
//
//   +1 3:0.5 17:-2 # a comment
//   -1 1:1
//
// a label, then a row's entries as INDEX:VALUE, whose indices are columns from 1 and ascend. All
// are finite numbers. https://www.csie.ntu.edu.tw/~cjlin/libsvm/
//
// Everything in a file is checked; it is gone through once, a piece at a time. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/data/byte_source.h"
#include "apps/data/sparse_columns.h"

namespace kerf::apps {

struct LabelledColumns {
  SparseColumns x;
  std::vector<double> labels;  // one for each row
};

// As many columns as the largest index says, or `columns` of them, of which it may then be none
// beyond. Throws Error{kUsage} at "FILE:LINE" for what is no such file.
LabelledColumns read_libsvm(const ByteSource& file, int64_t columns = 0);

}  // namespace kerf::apps
