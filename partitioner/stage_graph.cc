#include "partitioner/stage_graph.h"

#include <algorithm>
#include <utility>

#include "partitioner/at.h"
#include "partitioner/replicas.h"

namespace kerf::partitioner {

namespace {

void keep_each_once(std::vector<std::vector<int>>& edges) {
  for (std::vector<int>& ends : edges) {
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  }
}

}  // namespace

StageGraph chain_of_stages(int stages) {
  StageGraph graph{std::vector<std::vector<int>>(at(stages)),
                   std::vector<std::vector<int>>(at(stages))};
  for (int stage = 1; stage < stages; ++stage) {
    graph.reads[at(stage)].push_back(stage - 1);
    graph.gradients[at(stage) - 1].push_back(stage);
  }
  return graph;
}

StageGraph stage_graph_of(const Model& model, const Plan& plan) {
  StageGraph graph{std::vector<std::vector<int>>(plan.stages.size()),
                   std::vector<std::vector<int>>(plan.stages.size())};
  const std::vector<int> stage_of = stages_of_parts(plan);
  for (const Route& route : plan.routes) {
    const int from = stage_of[at(route.from)];
    const int to = stage_of[at(route.to)];
    if (from == to || is_of_step(model, route)) continue;
    KERF_CHECK((from < to) != route.gradient, "{} goes from stage {} to {}", name_of(model, route),
               from, to);
    (route.gradient ? graph.gradients : graph.reads)[at(to)].push_back(from);
  }
  keep_each_once(graph.reads);
  keep_each_once(graph.gradients);
  return graph;
}

Pipeline chain_of(std::vector<std::vector<int>> groups, int replicas) {
  const auto stages = static_cast<int>(groups.size()) / replicas;
  return {std::move(groups), chain_of_stages(stages)};
}

Pipeline pipeline_of(const Model& model, const Plan& plan) {
  return {groups_of(plan), stage_graph_of(model, plan), plan.replica_of};
}

namespace {

// One hop more than `from` has, or as many on the same workers; `to` keeps the most.
void hop(const Pipeline& pipeline, std::vector<int>& hops, int from, int to) {
  const bool elsewhere = pipeline.groups[at(from)] != pipeline.groups[at(to)];
  hops[at(to)] = std::max(hops[at(to)], hops[at(from)] + (elsewhere ? 1 : 0));
}

}  // namespace

std::vector<int> hops_to_the_end(const Pipeline& pipeline) {
  std::vector<int> hops(pipeline.groups.size());
  for (int stage = pipeline.graph.stages() - 1; stage >= 0; --stage) {
    // Of those that follow all is known, and those that read it have told it theirs.
    for (const int after : pipeline.graph.gradients[at(stage)]) hop(pipeline, hops, after, stage);
    for (const int before : pipeline.graph.reads[at(stage)]) hop(pipeline, hops, stage, before);
  }
  return hops;
}

}  // namespace kerf::partitioner
