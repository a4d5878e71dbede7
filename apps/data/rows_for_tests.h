// Which rows are for tests, where nothing in the data says it. Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "schedmp/dataset.h"

namespace kerf::apps {

// One row of so many.
inline constexpr int64_t kShareForTests = 10;

struct SomeRows {
  int64_t first = 0;
  int64_t count = 0;
};

// Of at least two rows: the last tenth is for tests, one at least.
inline SomeRows rows_of_split(int64_t rows, schedmp::Split split) {
  const int64_t tests = std::max<int64_t>(1, rows / kShareForTests);
  return split == schedmp::Split::kTrain ? SomeRows{0, rows - tests}
                                         : SomeRows{rows - tests, tests};
}

// Of rows that are made up, for each split others: those for tests are an eighth as many.
inline int64_t made_up_rows(int64_t rows, schedmp::Split split) {
  return split == schedmp::Split::kTrain ? rows : std::max<int64_t>(1, rows / 8);
}

}  // namespace kerf::apps
