// A cut's assignment, connected and bound as the request has it: a plan without its predictions.
// Pure functions.
#pragma once

#include "partitioner/cut.h"
#include "partitioner/plan.h"
#include "partitioner/sums.h"

namespace kerf::partitioner {

// Predictions, bottleneck and bound are left empty. Throws Error{kUsage} for a layout that an
// operator refuses.
Plan connected_plan(const Model& model, const PlanRequest& request, const Assignment& assignment);

// The same in two steps, for who asks something in between, or lowers by the same sums: bound to
// workers, without layouts and routes; then with those that `sums`, of its division, has.
Plan bound_plan(const Model& model, const PlanRequest& request, const Assignment& assignment);
void add_connectors(const Sums& sums, Plan& plan);

// A connected plan with its predictions, and its cut's bound. Throws Error{kInternal} for a bound
// above its bottleneck.
Plan predicted_plan(const Model& model, const PlanRequest& request, const InFlight& in_flight,
                    const Bound& bound, Plan connected);

}  // namespace kerf::partitioner
