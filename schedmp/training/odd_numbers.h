// Numbers of a data set that are not finite: what a loss that is not finite may come from. A pure
// function.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "partitioner/model.h"
#include "schedmp/dataset.h"

namespace kerf::schedmp {

// "row 17 of image", the first of these rows of which an input or a target of the model is not
// finite; empty where all are.
std::string odd_number(const Dataset& data, const partitioner::Model& model,
                       std::span<const int64_t> rows);

}  // namespace kerf::schedmp
