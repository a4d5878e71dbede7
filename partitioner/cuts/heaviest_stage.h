// What a stage with a heavy unit costs at the least: more than the unit alone, as its values come
// and go, or what makes and reads them comes in. No division is below that, and to look at the
// stages that have one unit is quicker than to look at all. Pure function.
#pragma once

#include <cstdint>
#include <optional>

#include "partitioner/ideals.h"
#include "partitioner/units.h"

namespace kerf::partitioner {

// The least price of the stages that have `unit`, wherever that is less than `limit`, on whichever
// device type makes it least; else `limit`. Empty where that takes more than `visits` steps.
std::optional<double> least_price_with(const Units& units, const Ideals& ideals, int unit,
                                       double limit, int64_t visits);

}  // namespace kerf::partitioner
