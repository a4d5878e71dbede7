// Where a row of a part lies in the whole step, for messages about its data.
#pragma once

#include <string>
#include <vector>

#include "ops/layout.h"
#include "ops/tensor.h"

namespace kerf::ops {

// Of row `row` of labels whose local shape is `local` and whose whole is `whole`, computed with
// these iterations of scores (samples, classes, positions): "3" or "3 at position [1, 2]", counted
// from `first_sample`.
std::string row_place(const Box& iterations, const Shape& local, const Shape& whole,
                      int64_t first_sample, int64_t row);

}  // namespace kerf::ops
