// A plan that is tried: what making one, the largest batch and the smallest change have in common.
// Within this folder. Pure functions.
#pragma once

#include <functional>

#include "partitioner/cut.h"

namespace kerf::partitioner {

class KnownPeaks;

const CutRow& row_of(Cut cut);  // of the table of cuts

// Throws Error{kUsage} naming the flag that is out of its range.
void check_request(const PlanRequest& request);
// That, and throws likewise for a model of which there is no plan.
void check_model(const Model& model, const PlanRequest& request);

// Within the caps if the cut finds one that is; else above them, or empty. `any_will_do`: it need
// not be the best within the caps.
std::optional<Plan> try_plan(const Model& model, const PlanRequest& request,
                             const InFlight& in_flight, bool any_will_do = false);
bool is_within(const std::optional<Plan>& plan, const PlanRequest& request);
// What the worker that is most over its cap needs, where one is; told by the last of its stages.
std::optional<Infeasible> shortage_of(const Plan& plan, const PlanRequest& request);
// What is within ever lower caps, from this plan down by steps that get smaller, until one byte
// less has none; of many operators, a five hundredth less.
Plan least_plan(const Model& model, PlanRequest request, Plan plan,
                const std::function<std::optional<Plan>(const PlanRequest&)>& within);

// The plan, or where none is within the caps, one of little memory: of a cut that heeds caps, of
// the least that it finds. `known`: of requests that differ from this one in their caps alone.
Plan plan_or_least(const Model& model, const PlanRequest& request, const InFlight& in_flight,
                   KnownPeaks& known);
// make_plan() for who asks of several cuts: of what is infeasible only the memory that would do.
std::variant<Plan, Infeasible> plan_or_shortage(const Model& model, const PlanRequest& request,
                                                const InFlight& in_flight);
// What find_smallest_change() does first. Of a hybrid cut, whose boundaries take less under a cap
// just above what they can do than under one far below: whether less memory than it says would do,
// by ever lower caps.
void look_for_less(const Model& model, const PlanRequest& request, const InFlight& in_flight,
                   Infeasible& infeasible);

// The request, and of a hybrid cut whose groups would go by sample under a cap the same with some
// of them by feature, and with all: of many groups those with most weights. Of a model before any
// rewrite.
std::vector<PlanRequest> ways_of(const Model& model, const PlanRequest& request);

// What there is no plan of, in the way that lacks least.
struct Shortage {
  Infeasible lacks;  // memory
  Model model;       // as rewritten for that way
  PlanRequest way;
};
// What else would do, in whatever way of what was asked: it takes plans of other requests.
void find_smallest_change(const PlanRequest& asked, const InFlight& in_flight, Shortage& shortage);
// plan_model() before the smallest change.
std::variant<PlannedModel, Shortage> plan_model_or_shortage(const Model& model,
                                                            const PlanRequest& request,
                                                            const InFlight& in_flight);

// That has a part on it.
int last_stage_of(const Plan& plan, int worker);

// Bytes of the fullest worker.
int64_t peak_of(const Plan& plan);

}  // namespace kerf::partitioner
