// From a request to a plan with its model. Of a hybrid cut each group may go by feature or by
// sample, and what of the model is rewritten depends on which. Under a cap groups by sample may not
// fit, for each member has all weights of its layers, where groups by feature do.
#include <utility>

#include "partitioner/cuts/hybrid.h"
#include "partitioner/tried_plan.h"

namespace kerf::partitioner {

std::vector<PlanRequest> ways_of(const Model& model, const PlanRequest& request) {
  std::vector<PlanRequest> ways{request};
  if (request.cut != Cut::kHybrid || !request.is_capped()) return ways;
  try {
    if (!HybridCut(model, request).goes_by_sample(request)) return ways;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    return ways;  // who plans it is told why it cannot be
  }
  ways.push_back(request);
  ways.back().by_sample = false;
  return ways;
}

// What one way throws is of no account where another has a plan, or lacks memory alone.
std::variant<PlannedModel, Shortage> plan_model_or_shortage(const Model& model,
                                                            const PlanRequest& request,
                                                            const InFlight& in_flight) {
  check_request(request);
  std::optional<PlannedModel> best;
  std::optional<Shortage> least;
  std::optional<Error> fault;
  for (const PlanRequest& way : ways_of(model, request)) try {
      Model rewritten = model_for(model, way);
      auto answer = plan_or_shortage(rewritten, way, in_flight);
      if (Plan* const plan = std::get_if<Plan>(&answer)) {
        if (!best || plan->bottleneck < best->plan.bottleneck)
          best = {std::move(rewritten), std::move(*plan)};
      } else if (auto& lacks = std::get<Infeasible>(answer);
                 !least || lacks.over < least->lacks.over) {
        least = {std::move(lacks), std::move(rewritten), way};
      }
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;
      if (!fault) fault = error;
    }
  if (best) return *std::move(best);
  if (!least) throw Error(*fault);
  return *std::move(least);
}

std::variant<PlannedModel, Infeasible> plan_model(const Model& model, const PlanRequest& request,
                                                  const InFlight& in_flight) {
  auto answer = plan_model_or_shortage(model, request, in_flight);
  if (auto* const planned = std::get_if<PlannedModel>(&answer)) return std::move(*planned);
  auto& [lacks, rewritten, way] = std::get<Shortage>(answer);
  find_smallest_change(rewritten, way, in_flight, lacks);
  return std::move(lacks);
}

}  // namespace kerf::partitioner
