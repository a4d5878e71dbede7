#include "partitioner/plans_within.h"

#include <algorithm>
#include <utility>

#include "partitioner/least_memory.h"
#include "partitioner/tried_plan.h"

namespace kerf::partitioner {

std::optional<Plan> PlansWithin::find(const PlanRequest& request) {
  check_model(model_, request);
  if (exceeds_all_caps(least_memory(model_, request), request)) return std::nullopt;
  Known& known = this->known(request);
  if (!request.is_capped()) {
    if (!known.without_caps)
      known.without_caps = plan_or_least(model_, request, in_flight_, known.peaks);
    return known.without_caps;
  }
  const bool has_one_cap = request.memory && !request.speed.capacities.has_caps();
  if (has_one_cap && *request.memory < known.least) return std::nullopt;
  Plan plan = plan_or_least(model_, request, in_flight_, known.peaks);
  if (!shortage_of(plan, request)) return plan;
  if (has_one_cap) known.least = std::max(known.least, peak_of(plan));
  return std::nullopt;
}

PlansWithin::Known& PlansWithin::known(const PlanRequest& request) {
  Key key(request.given_sizes, request.batch, request.micro_batches,
          request.steering.stages_per_worker);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  return known_.emplace(std::move(key), Known{KnownPeaks(model_, request, in_flight_)})
      .first->second;
}

}  // namespace kerf::partitioner
