// What one route of a plan carries in a step. Pure function.
#pragma once

#include <map>

#include "partitioner/plan.h"

namespace kerf::partitioner {

// In micro-batches of these sizes (MicroBatchSizes::counted()).
Traffic traffic_of(const Model& model, const Route& route, const std::map<int64_t, int>& sizes);

}  // namespace kerf::partitioner
