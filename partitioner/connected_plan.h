// A cut's assignment, connected and bound as the request has it: a plan without its predictions.
// Pure function.
#pragma once

#include "partitioner/cut.h"
#include "partitioner/plan.h"

namespace kerf::partitioner {

// Sets all that follows from the assignment without looking at memory or at the clock.
Plan connected_plan(const Model& model, const PlanRequest& request, const Assignment& assignment);

}  // namespace kerf::partitioner
