// A plan that is tried: what making one, the largest batch and the smallest change have in common.
// Within this folder. Pure functions.
#pragma once

#include "partitioner/cut.h"

namespace kerf::partitioner {

const CutRow& row_of(Cut cut);  // of the table of cuts

// Throws Error{kUsage} naming the flag that is out of its range.
void check_request(const PlanRequest& request);

// Within the caps if the cut finds one that is; else above them, or empty. `any_will_do`: it need
// not be the best within the caps.
std::optional<Plan> try_plan(const Model& model, const PlanRequest& request,
                             const InFlight& in_flight, bool any_will_do = false);
bool is_within(const std::optional<Plan>& plan, const PlanRequest& request);

// Of a hybrid cut, whose boundaries take less under a cap just above what they can do than under
// one far below: whether less memory than it says would do, by ever lower caps.
void look_for_less(const Model& model, const PlanRequest& request, const InFlight& in_flight,
                   Infeasible& infeasible);

// That has a part on it.
int last_stage_of(const Plan& plan, int worker);

// Bytes of the fullest worker.
int64_t peak_of(const Plan& plan);

}  // namespace kerf::partitioner
