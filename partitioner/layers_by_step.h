// Operators in model order as stages of one worker each, by the simulated step: a search of the
// automatic cut (choose_plan.h).
//
// All divisions where they are few; else those that formulas give (line_splits.h), the best of
// which is bettered by moving one boundary at a time. Pure function.
#pragma once

#include <functional>
#include <optional>

#include "partitioner/bound.h"
#include "partitioner/cut.h"

namespace kerf::partitioner {

// What an assignment's step takes: seconds, then bytes sent; empty where it cannot be run, or is
// not within the cap.
struct StepCost {
  double seconds = 0;
  int64_t bytes = 0;
  auto operator<=>(const StepCost&) const = default;
};
using StepCostOf = std::function<std::optional<StepCost>(const Assignment&)>;

// `bound`: of the bottleneck, for the assignment to keep, with its witness. Empty where there is no
// such division.
std::optional<Assignment> best_layers_by_step(const Model& model, const PlanRequest& request,
                                              const Bound& bound, const StepCostOf& cost_of);

}  // namespace kerf::partitioner
