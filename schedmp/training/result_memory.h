// Where the results of a model without a loss lie on the host, between the step that gave them and
// the file that they go to: memory of its own for every share and micro-batch. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "partitioner/part.h"
#include "partitioner/plan.h"

namespace kerf::schedmp {

// Of one micro-batch of a local that a part writes out.
int64_t result_bytes(const partitioner::Part& part, int local, const partitioner::Plan& plan);
// Of all micro-batches of all that the worker's parts write out in an evaluation.
int64_t result_bytes(const std::vector<partitioner::Part>& parts, const partitioner::Plan& plan,
                     int worker);

}  // namespace kerf::schedmp
