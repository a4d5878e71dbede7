// What a test's step works on, as pure functions: rows and what is kept, before the step. Whoever
// runs the step, in whatever division, sees the same.
#pragma once

#include <cstddef>
#include <vector>

#include "ops/random.h"
#include "partitioner/model.h"

namespace kerf::partitioner {

// What data and parameters are made of: normal numbers, or small whole ones, of which sums and
// products are exact while they stay below 2^24.
enum class Numbers { kNormal, kWhole };

// -2 to 2, and 0 as often as all others together.
float small_number(uint32_t stream, int64_t index);

// The whole tensor of what is_kept(), dense.
std::vector<std::byte> kept_data(const Value& value, Numbers numbers);

// `count` rows of an input or label from row `first` of the step on, dense. Rows are numbered
// through the step; everything else follows from the number. Classes and indices are 0 to 2.
std::vector<std::byte> row_data(const Model& model, ValueId value, int64_t first, int64_t count,
                                Numbers numbers);

}  // namespace kerf::partitioner
