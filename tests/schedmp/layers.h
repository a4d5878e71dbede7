// A perceptron of one small layer a stage, each with something to do in F, I and W, on the workers
// that a schedule has: for who looks at schedules and not at models.
#pragma once

#include <utility>
#include <vector>

#include "partitioner/builder.h"
#include "partitioner/cut.h"
#include "partitioner/replicas.h"
#include "runtime/format.h"
#include "schedmp/schedules.h"

namespace kerf::tests {

inline constexpr int64_t kLayerFeatures = 8;
inline constexpr int64_t kLayerClasses = 4;

inline partitioner::Model layers(int stages) {
  partitioner::Builder b(format("{} layers", stages));
  partitioner::ValueId x = b.input("x", {ops::kBatch, kLayerFeatures});
  for (int stage = 0; stage + 1 < stages; ++stage) x = b.relu(b.gemm(x, kLayerFeatures));
  b.loss(b.gemm(b.relu(x), kLayerClasses));
  return b.build();
}

// Of layers(), whose stages end at their relus; the last has one to begin with.
inline std::vector<int> stages_of_layers(const partitioner::Model& model, int stages) {
  std::vector<int> stage_of;
  int stage = 0;
  for (partitioner::NodeId node = 0; node < model.nodes(); ++node) {
    stage_of.push_back(stage);
    if (model.node(node).name.starts_with("relu") && stage + 1 < stages) ++stage;
  }
  return stage_of;
}

// Two rows a micro-batch.
inline partitioner::Plan plan_of_layers(const partitioner::Model& model,
                                        const schedmp::Schedule& schedule,
                                        const partitioner::Setting& setting) {
  partitioner::PlanRequest request;
  request.workers = schedule.stages();
  request.batch = 2 * schedule.micro_batches;
  request.micro_batches = schedule.micro_batches;
  request.schedule = schedule.name;
  request.setting = setting;
  for (int stage = 0; stage < schedule.stages(); ++stage)
    request.placement.push_back(schedule.groups[static_cast<size_t>(stage)].at(0));
  request.given_stages = stages_of_layers(model, schedule.stages());
  const auto in_flight = schedmp::in_flight_of(schedule);
  auto plan = std::get<partitioner::Plan>(partitioner::make_plan(model, request, *in_flight));
  if (schedule.replicas == 1) return plan;
  return partitioner::replicated_plan(model, request, *in_flight, std::move(plan), schedule.groups,
                                      schedule.replica_of);
}

}  // namespace kerf::tests
