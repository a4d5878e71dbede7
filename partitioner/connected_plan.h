// A cut's assignment, connected and bound as the request has it: a plan without its predictions.
// Pure function.
#pragma once

#include "partitioner/cut.h"
#include "partitioner/plan.h"

namespace kerf::partitioner {

// Predictions, bottleneck and bound are left empty. Throws Error{kUsage} for a layout that an
// operator refuses.
Plan connected_plan(const Model& model, const PlanRequest& request, const Assignment& assignment);

}  // namespace kerf::partitioner
