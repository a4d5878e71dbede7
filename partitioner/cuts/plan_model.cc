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
  if (HybridCut(model, request).goes_by_sample(request)) {
    ways.push_back(request);
    ways.back().by_sample = false;
  }
  return ways;
}

std::variant<PlannedModel, Shortage> plan_model_or_shortage(const Model& model,
                                                            const PlanRequest& request,
                                                            const InFlight& in_flight) {
  check_request(request);
  std::optional<PlannedModel> best;
  std::optional<Shortage> least;
  for (const PlanRequest& way : ways_of(model, request)) {
    Model rewritten = model_for(model, way);
    auto answer = plan_or_shortage(rewritten, way, in_flight);
    if (Plan* const plan = std::get_if<Plan>(&answer)) {
      if (!best || plan->bottleneck < best->plan.bottleneck)
        best = {std::move(rewritten), std::move(*plan)};
    } else if (auto& lacks = std::get<Infeasible>(answer); !least || lacks.over < least->lacks.over)
      least = {std::move(lacks), std::move(rewritten), way};
  }
  if (best) return *std::move(best);
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
