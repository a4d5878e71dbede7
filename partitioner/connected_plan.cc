#include "partitioner/connected_plan.h"

#include <numeric>

#include "partitioner/sources.h"
#include "partitioner/step_vector.h"

namespace kerf::partitioner {

Plan bound_plan(const Model& model, const PlanRequest& request, const Assignment& assignment) {
  Plan plan;
  plan.model = model.name();
  plan.fingerprint = model.fingerprint();
  plan.cut = request.cut;
  plan.batch = request.batch;
  plan.micro_batches = request.micro_batches;
  plan.given_sizes = request.given_sizes;
  plan.schedule = request.schedule;
  plan.request = {
      request.source,   request.memory,    request.minimise,      request.setting,
      request.momentum, request.optimizer, request.speed.profile, request.speed.capacities,
      request.steering, request.pairs,     request.trains};
  plan.stages = assignment.stages;
  plan.division = assignment.division;
  plan.binding = assignment.binding.empty() ? request.placement : assignment.binding;
  if (plan.binding.empty()) {
    plan.binding.resize(static_cast<size_t>(request.workers));
    std::iota(plan.binding.begin(), plan.binding.end(), 0);
  }
  return plan;
}

void add_connectors(const Sums& sums, Plan& plan) {
  plan.layouts = layouts_of(sums.sources());
  plan.routes = all_routes(sums, plan.micro_batches);
}

Plan connected_plan(const Model& model, const PlanRequest& request, const Assignment& assignment) {
  Plan plan = bound_plan(model, request, assignment);
  const Sources sources(model, plan.division, stages_of_parts(plan));
  add_connectors(Sums(sources), plan);
  return plan;
}

}  // namespace kerf::partitioner
