// What a worker has of rows, columns or whatever else is divided evenly. A pure function.
#pragma once

#include "ops/layout.h"

namespace kerf::apps {

// Of [0, count), the part of one of so many workers: as ops::split_evenly has it.
inline ops::Range even_range(int64_t count, int workers, int worker) {
  const auto ranges = ops::split_evenly(count, workers)[static_cast<size_t>(worker)].ranges(count);
  return ranges.empty() ? ops::Range{} : ranges[0];
}

}  // namespace kerf::apps
