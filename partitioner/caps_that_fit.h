// What would do where what a cut tells does not hold, for its plan is not yet the one that runs:
// replicas (replicas.h) come to it, or slots that it wants. So plans are made as they will run, and
// what is told is what one of these takes. Pure functions.
#pragma once

#include <functional>
#include <optional>

#include "partitioner/cut.h"

namespace kerf::partitioner {

// A plan as it will run, within the request's caps; empty where none is made.
using PlanWithin = std::function<std::optional<Plan>(const PlanRequest&)>;

// Tells the caps that do: those that a plan takes, made under them. `free`: the plan without caps.
void tell_caps_that_fit(const PlanRequest& asked, const Plan& free, const PlanWithin& plan_within,
                        Infeasible& lacks);

// The fewest even micro-batches, more than the request's, that are found to do; 0 if none do. Of a
// model before any rewrite.
int micro_batches_that_fit(const Model& model, PlanRequest request, const InFlight& in_flight,
                           const PlanWithin& plan_within);

// largest_batch() (cut.h) of such plans, of a cut that any number of rows can be planned for.
int64_t largest_batch_within(const PlanRequest& asked, const PlanWithin& plan_within);

}  // namespace kerf::partitioner
