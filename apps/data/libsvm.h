// Rows with labels as text, as LIBSVM has them:
//
//   +1 3:0.5 17:-2 # a comment
//   -1 1:1
//
// a label, then a row's entries as INDEX:VALUE, whose indices are columns from 1 and ascend. All
// are finite numbers. https://www.csie.ntu.edu.tw/~cjlin/libsvm/
//
// Everything that is read is checked; a file is gone through once, a piece at a time. Functions
// throw Error{kUsage} at "FILE:LINE" for what is no such file. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "apps/data/byte_source.h"
#include "apps/data/sparse_columns.h"
#include "ops/layout.h"

namespace kerf::apps {

struct LabelledRows {
  SparseColumns rows;  // the matrix by rows: as columns of another
  std::vector<double> labels;
};

// As many columns as the largest index says, or `columns` of them, of which it may then be none
// beyond. All rows or those of `kept`, which it must have; what is behind them is not looked at.
LabelledRows read_libsvm(const ByteSource& file, int64_t columns = 0,
                         std::optional<ops::Range> kept = {});

// The labels of all rows, and as many columns as the largest of the rows' last indices says, which
// is all that is looked at of the entries.
struct LibsvmLabels {
  std::vector<double> labels;
  int64_t columns = 0;
};
LibsvmLabels read_libsvm_labels(const ByteSource& file);

}  // namespace kerf::apps
