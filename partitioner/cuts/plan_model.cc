// From a request to a plan with its model. Of a hybrid cut each group may go by feature or by
// sample, and what of the model is rewritten depends on which. Under a cap groups by sample may not
// fit, for each member has all weights of its layers, where groups by feature do.
#include <algorithm>
#include <functional>
#include <utility>

#include "partitioner/at.h"
#include "partitioner/cuts/hybrid.h"
#include "partitioner/tried_plan.h"

namespace kerf::partitioner {

namespace {

constexpr size_t kFewGroups = 3;

// Group -> bytes of weights and all else that is kept from step to step.
std::vector<int64_t> kept_by_groups(const Model& model, const Groups& groups) {
  const std::vector<size_t> layer_of = layer_of_nodes(model);
  std::vector<int64_t> kept(groups.size());
  for (const ValueId value : model.kept_values()) {
    if (model.uses(value).empty()) continue;
    const size_t layer = layer_of[at(model.uses(value).front().node)];
    size_t group = 0;
    while (at(groups[group].end) <= layer) ++group;
    kept[group] += static_cast<int64_t>(model.value(value).spec.bytes(0));
  }
  return kept;
}

// The groups that go by sample, those whose weights take most bytes first.
std::vector<size_t> heaviest_by_sample(const Model& model, const Groups& groups) {
  const std::vector<int64_t> kept = kept_by_groups(model, groups);
  std::vector<size_t> by_sample;
  for (size_t s = 0; s < groups.size(); ++s)
    if (groups[s].shape.way == Way::kSample) by_sample.push_back(s);
  std::ranges::stable_sort(by_sample, std::greater<>(), [&](size_t s) { return kept[s]; });
  return by_sample;
}

// Which of these groups go by feature: where they are few, whatever may be; else ever twice as
// many, from the first on.
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
  for (size_t subset = 1; subset < (size_t{1} << groups.size()); ++subset)
    add([&](size_t i) { return (subset >> i & 1) != 0; });
  return result;
}

std::vector<PlanRequest> ways_of_hybrid(const Model& model, const PlanRequest& request) {
  HybridCut hybrid(model, request);
  std::vector<PlanRequest> ways{request};
  std::vector<Groups> known{hybrid.groups(request)};
  const auto heaviest = heaviest_by_sample(model, known.front());
  if (heaviest.empty()) return ways;
  std::vector<GroupSet> by_feature = some_of(heaviest);
  by_feature.emplace_back().set();
  for (const GroupSet& some : by_feature) {
    PlanRequest way = request;
    way.by_feature |= some;
    Groups groups = hybrid.groups(way);
    if (std::ranges::find(known, groups) != known.end()) continue;
    known.push_back(std::move(groups));
    ways.push_back(std::move(way));
  }
  return ways;
}

}  // namespace

std::vector<PlanRequest> ways_of(const Model& model, const PlanRequest& request) {
  if (request.cut != Cut::kHybrid || !request.is_capped()) return {request};
  try {
    return ways_of_hybrid(model, request);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    return {request};  // who plans it is told why it cannot be
  }
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
  auto& shortage = std::get<Shortage>(answer);
  find_smallest_change(request, in_flight, shortage);
  return std::move(shortage.lacks);
}

}  // namespace kerf::partitioner
