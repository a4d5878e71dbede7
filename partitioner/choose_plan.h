// The automatic cut: the plan whose step is simulated to take least, of all that the table of cuts
// has for a request.
//
//   layer                    the layer cut's own, of the least bottleneck
//   layer, by step           stages in model order: all of them where they are few; else those that
//                            formulas give (line_splits.h), the best of which is bettered by moving
//                            one boundary at a time
//   feature; any other row   as it makes its plan
//   feature, without pairs   each product by its outputs, where the request lets there be pairs
//   hybrid in 2 ... stages   up to a stage for each worker
//   hybrid, groups           of any size, each by feature or by sample: those that formulas find
//                            best, PipeDream's stages of replicas and Alpa's (group_search.h)
//   free                     by the request's shares, or its devices that differ; else by space,
//                            where there are images to divide
//   free, evenly             by features alone, nothing rewritten; not beside shares, nor of
//                            devices that differ
//
// The step in seconds decides, then bytes sent, then the order of the table. So no such plan is
// faster, and the same request gives the same plan. With request.slack the fewest bytes decide
// among those whose step takes at most (1 + slack) times the least.
//
// Not all are simulated: those go first whose bound (cuts/least_seconds.h) is least, and those that
// cannot be chosen any more are left. Pure function.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "partitioner/cut.h"
#include "partitioner/objective.h"

namespace kerf::partitioner {

// One candidate: what it would take, or why there is none.
struct Tried {
  std::string how;  // "feature", "hybrid in 3 stages"
  std::optional<double> step_seconds;
  int64_t bytes = 0;  // sent, of a step
  std::string why_not;
};

struct Choice {
  Model model;  // as the plan's cut has it rewritten
  Plan plan;
  std::vector<Tried> tried;  // in the order of the table
};

// Told of each candidate before it is tried.
using OnTry = std::function<void(const std::string& how)>;

// request.cut, stages and placement are not looked at; the plan's own request says that it was
// chosen, and within which slack, which is of the choice and not of its cut. Infeasible: no cut has
// a plan within the memory cap. Throws what the first cut throws where all of them do.
std::variant<Choice, Infeasible> choose_plan(const Model& model, const PlanRequest& request,
                                             const InFlight& in_flight, const Objective& objective,
                                             const OnTry& on_try = {});

}  // namespace kerf::partitioner
