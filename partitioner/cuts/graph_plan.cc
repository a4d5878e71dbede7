#include "partitioner/graph_plan.h"

#include <algorithm>
#include <cmath>

#include "partitioner/at.h"
#include "partitioner/cuts/layer_search.h"

namespace kerf::partitioner {
namespace {

// A file's graph says what one batch takes, and nothing of schedules.
constexpr int kBatchesInFlight = 1;

// The stages that read or make a value, each once.
std::vector<int> stages_at(const CostValue& value, const std::vector<int>& stage_of) {
  std::vector<int> stages;
  for (const int reader : value.readers) stages.push_back(stage_of[at(reader)]);
  std::sort(stages.begin(), stages.end());
  stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  std::erase(stages, stage_of[at(value.producer)]);
  return stages;
}

// Whether each stage takes part once in the sum of the value's gradient.
bool returns_once(const CostValue& value, const std::vector<int>& stage_of) {
  return std::is_sorted(value.returns.begin(), value.returns.end(),
                        [&](int a, int b) { return stage_of[at(a)] < stage_of[at(b)]; });
}

void add_wire(const CostGraph& graph, GraphPlan& plan) {
  for (const CostValue& value : graph.values()) {
    const std::vector<int> readers = stages_at(value, plan.stage_of);
    if (!readers.empty()) plan.stages[at(plan.stage_of[at(value.producer)])].wire += value.leave;
    const bool once = returns_once(value, plan.stage_of);
    for (const int stage : readers) {
      plan.stages[at(stage)].wire += once ? value.enter : value.enter - value.returning;
      plan.stages[at(stage)].bytes_in += once ? value.bytes : value.bytes - value.returned_bytes;
    }
    if (once) continue;
    for (const int reader : value.returns) {
      const int stage = plan.stage_of[at(reader)];
      if (stage == plan.stage_of[at(value.producer)]) continue;
      plan.stages[at(stage)].wire += value.returning;
      plan.stages[at(stage)].bytes_in += value.returned_bytes;
    }
  }
}

void add_memory(const CostGraph& graph, GraphPlan& plan) {
  for (const Held& held : graph.held()) {
    std::vector<int> stages;
    for (const int node : held.nodes) stages.push_back(plan.stage_of[at(node)]);
    std::sort(stages.begin(), stages.end());
    stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
    for (const int stage : stages)
      plan.stages[at(stage)].memory += held.fixed + kBatchesInFlight * held.per_micro_batch;
  }
}

StageLimits limits_of(int workers) {
  StageLimits limits;
  limits.device_type.assign(at(workers), 0);
  limits.micro_batches.assign(at(workers), kBatchesInFlight);
  return limits;
}

// A stage of a file's graph takes what its nodes hold, and nothing beyond.
std::vector<double> peaks_of(const LayerDivision& division) { return division.memory; }

int largest_stage(const LayerDivision& division) {
  const auto most = std::max_element(division.memory.begin(), division.memory.end());
  return static_cast<int>(most - division.memory.begin());
}

// The least cap that fits: what nodes hold grows with a stage, so that a bisection finds it.
int64_t least_cap(const LayerSearch& search, int64_t fails, int64_t enough) {
  while (enough - fails > 1 + (enough >> 30)) {
    const int64_t middle = fails + (enough - fails) / 2;
    (search.has_division_within(middle) ? enough : fails) = middle;
  }
  return enough;
}

Infeasible infeasible(const LayerSearch& search, int64_t cap) {
  const auto free = search.best();
  KERF_CHECK(free.has_value(), "no division, whatever it takes");
  const auto of_free = static_cast<int64_t>(std::ceil(free->memory[at(largest_stage(*free))]));
  int64_t enough = least_cap(search, cap, of_free);
  auto least = search.best_within(enough, peaks_of);
  if (!least) {  // a search of long lines does not try every boundary
    enough = of_free;
    least = free;
  }
  return {largest_stage(*least), cap, enough - cap, format("--memory {}", enough)};
}

}  // namespace

GraphPlan price_division(const CostGraph& graph, const std::vector<std::vector<int>>& stages) {
  GraphPlan plan;
  plan.stage_of.assign(at(graph.size()), -1);
  for (size_t s = 0; s < stages.size(); ++s) {
    plan.stages.push_back({stages[s], 0, 0, 0, 0});
    for (const int node : stages[s]) {
      KERF_CHECK(plan.stage_of[at(node)] < 0, "node {} is in two stages", graph.node(node).name);
      plan.stage_of[at(node)] = static_cast<int>(s);
      plan.stages[s].work += graph.work(0, node).total();
    }
  }
  for (int node = 0; node < graph.size(); ++node)
    KERF_CHECK(plan.stage_of[at(node)] >= 0, "node {} is in no stage", graph.node(node).name);
  add_wire(graph, plan);
  add_memory(graph, plan);
  for (const GraphStage& stage : plan.stages)
    plan.bottleneck = std::max(plan.bottleneck, stage.work + stage.wire);
  plan.cut_bytes = cut_bytes(graph, plan.stage_of);
  plan.acyclic = has_acyclic_stages(graph, plan.stage_of, static_cast<int>(stages.size()));
  return plan;
}

std::variant<GraphPlan, Infeasible> plan_graph(const CostGraph& graph,
                                               const GraphRequest& request) {
  if (request.workers < 1)
    throw Error(ErrorCode::kUsage, format("--workers {}: needs at least 1", request.workers));
  if (request.memory && *request.memory < 1)
    throw Error(ErrorCode::kUsage, format("--memory {}: needs at least 1 byte", *request.memory));
  const LayerSearch search(graph, limits_of(request.workers));
  if (request.workers > search.units())
    throw Error(ErrorCode::kInfeasible,
                format("a layer cut gives every worker at least one operator: {} workers, but {} "
                       "has {} groups of nodes that can be parted; use --workers {} or fewer",
                       request.workers, graph.name(), search.units(), search.units()));
  const auto division =
      request.memory ? search.best_within(*request.memory, peaks_of) : search.best();
  if (!division) {
    KERF_CHECK(request.memory.has_value(), "no division, and no cap that forbids one");
    return infeasible(search, *request.memory);
  }
  GraphPlan plan = price_division(graph, division->stages);
  plan.bound = search.bound();
  plan.bound.value = std::min(plan.bound.value, plan.bottleneck);  // rounding may set it above
  return plan;
}

}  // namespace kerf::partitioner
