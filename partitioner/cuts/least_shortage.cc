#include "partitioner/cuts/least_shortage.h"

#include <algorithm>
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

}  // namespace

std::optional<Infeasible> least_shortage(const Model& model, PlanRequest request,
                                         const InFlight& in_flight,
                                         const std::vector<const Plan*>& others) {
  std::optional<Shortage> least;
  for (const auto& [cut, stages] : rows_of(model, request)) {
    try {
      request.cut = cut;
      request.stages = stages;
      auto answer = plan_model_or_shortage(model, request, in_flight);
      auto* const found = std::get_if<Shortage>(&answer);
      if (found != nullptr && (!least || found->lacks.over < least->lacks.over))
        least = std::move(*found);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;
    }
  }
  std::optional<Infeasible> of_others;
  for (const Plan* plan : others)
    if (auto other = shortage_of(*plan, request);
        other && (!of_others || other->over < of_others->over))
      of_others = std::move(other);
  if (!least || (of_others && of_others->over < least->lacks.over)) return of_others;
  PlanRequest asked = least->way;
  asked.by_feature = request.by_feature;
  find_smallest_change(asked, in_flight, *least);
  return std::move(least->lacks);
}

}  // namespace kerf::partitioner
