#include "partitioner/connected_plan.h"

#include <numeric>

#include "partitioner/sources.h"
#include "partitioner/step_vector.h"

namespace kerf::partitioner {

Plan connected_plan(const Model& model, const PlanRequest& request, const Assignment& assignment) {
  Plan plan;
  plan.model = model.name();
  plan.fingerprint = model.fingerprint();
  plan.cut = request.cut;
  plan.batch = request.batch;
  plan.micro_batches = request.micro_batches;
  plan.schedule = request.schedule;
  plan.request = {request.source,   request.memory,    request.minimise,     request.setting,
                  request.momentum, request.optimizer, request.speed.profile};
  plan.stages = assignment.stages;
  plan.division = assignment.division;
  plan.binding = request.placement;
  plan.binding.resize(static_cast<size_t>(request.workers));
  if (request.placement.empty()) std::iota(plan.binding.begin(), plan.binding.end(), 0);
  const Sources sources(model, plan.division, stages_of_parts(plan));
  plan.layouts = layouts_of(sources);
  plan.routes = all_routes(sources, plan.micro_batches);
  return plan;
}

}  // namespace kerf::partitioner
