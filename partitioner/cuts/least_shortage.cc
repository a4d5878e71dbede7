#include "partitioner/cuts/least_shortage.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "partitioner/cuts/space.h"
#include "partitioner/tried_plan.h"

namespace kerf::partitioner {
namespace {

// Rows of the table that a request of any cut has, and of a hybrid cut how many stages.
std::vector<std::pair<Cut, int>> rows_of(const Model& model, const PlanRequest& request) {
  std::vector<std::pair<Cut, int>> rows{{Cut::kLayer, 0}, {Cut::kFeature, 0}, {Cut::kBatch, 0}};
  for (int stages = 2; stages <= request.workers; ++stages) rows.emplace_back(Cut::kHybrid, stages);
  if (has_space_to_divide(model, request)) rows.emplace_back(Cut::kFree, 0);
  return rows;
}

// What a plan that is no row's needs beyond the cap of all workers.
Infeasible shortage_of(const Plan& plan, int64_t cap) {
  const auto fullest =
      std::max_element(plan.workers.begin(), plan.workers.end(),
                       [](const auto& a, const auto& b) { return a.peak_bytes < b.peak_bytes; });
  Infeasible result;
  for (size_t s = 0; s < plan.stages.size(); ++s)
    for (const int worker : plan.workers_of(plan.stages[s]))
      if (worker == fullest->worker) result.stage = static_cast<int>(s);
  result.cap = cap;
  result.over = fullest->peak_bytes - cap;
  result.smallest_change = format("--memory {}", fullest->peak_bytes);
  return result;
}

}  // namespace

std::optional<Infeasible> least_shortage(const Model& model, PlanRequest request,
                                         const InFlight& in_flight,
                                         const std::vector<const Plan*>& others) {
  std::optional<Infeasible> least;
  std::optional<std::pair<Cut, int>> row;  // whose it is
  for (const auto& [cut, stages] : rows_of(model, request)) {
    try {
      request.cut = cut;
      request.stages = stages;
      auto answer = plan_or_shortage(model_for(model, request), request, in_flight);
      auto* const lacks = std::get_if<Infeasible>(&answer);
      if (lacks == nullptr || (least && lacks->over >= least->over)) continue;
      least = std::move(*lacks);
      row = {cut, stages};
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;
    }
  }
  for (const Plan* plan : others)
    if (auto other = shortage_of(*plan, *request.memory); !least || other.over < least->over) {
      least = std::move(other);
      row.reset();
    }
  if (row) {
    std::tie(request.cut, request.stages) = *row;
    const Model rewritten = model_for(model, request);
    look_for_less(rewritten, request, in_flight, *least);
    find_smallest_change(rewritten, request, in_flight, *least);
  }
  return least;
}

}  // namespace kerf::partitioner
