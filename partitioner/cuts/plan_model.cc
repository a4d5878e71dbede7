// From a request to a plan with its model. Of a hybrid cut each group may go by feature or by
// sample, and what of the model is rewritten depends on which. Under a cap groups by sample may not
// fit, for each member has all weights of its layers, where groups by feature do.
#include <utility>

#include "partitioner/cuts/hybrid.h"
#include "partitioner/tried_plan.h"

namespace kerf::partitioner {

namespace {

constexpr size_t kFewGroups = 3;

// What of these groups goes by feature beside all and none of them: where they are few, whatever
// may be; else ever twice as many, from the first on.
std::vector<GroupSet> some_of(const std::vector<size_t>& groups) {
  std::vector<GroupSet> result;
  const auto add = [&](const auto& is_in) {
    GroupSet& some = result.emplace_back();
    for (size_t i = 0; i < groups.size(); ++i) some[groups[i]] = is_in(i);
  };
  if (groups.size() > kFewGroups) {
    for (size_t first = 1; first < groups.size(); first *= 2)
      add([&](size_t i) { return i < first; });
    return result;
  }
  for (size_t subset = 1; subset + 1 < (size_t{1} << groups.size()); ++subset)
    add([&](size_t i) { return (subset >> i & 1) != 0; });
  return result;
}

}  // namespace

std::vector<PlanRequest> ways_of(const Model& model, const PlanRequest& request) {
  std::vector<PlanRequest> ways{request};
  if (request.cut != Cut::kHybrid || !request.is_capped()) return ways;
  std::vector<size_t> by_sample;
  try {
    by_sample = HybridCut(model, request).by_sample(request);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;  // else who plans it is told why it cannot be
  }
  if (by_sample.empty()) return ways;
  std::vector<GroupSet> by_feature = some_of(by_sample);
  by_feature.emplace_back().set();
  for (const GroupSet& some : by_feature) {
    ways.push_back(request);
    ways.back().by_feature |= some;
  }
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
