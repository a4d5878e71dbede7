// The squared length of a column. A pure function.
#pragma once

#include <cmath>
#include <string>

#include "apps/data/sparse_columns.h"
#include "runtime/error.h"

namespace kerf::apps {

// `number` is the column's in the whole matrix, from 0. Throws Error{kUsage} that names the file
// where a value is so large or so small that its square is none.
inline double squared_norm(const SparseColumns& matrix, int64_t column, int64_t number,
                           const std::string& file) {
  constexpr double kLeast = 1e-150, kMost = 1e150;
  double sum = 0;
  for (const double value : matrix.values_of(column)) {
    const double size = std::abs(value);
    if (size > kMost || (size != 0 && size < kLeast))
      throw Error(ErrorCode::kUsage,
                  format("column {} has a value of {}, whose square is no number to count with; "
                         "scale it",
                         number + 1, value),
                  file);
    sum += value * value;
  }
  return sum;
}

}  // namespace kerf::apps
