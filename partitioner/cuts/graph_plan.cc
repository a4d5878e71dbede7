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

StageLimits limits_of(const GraphRequest& request) {
  StageLimits limits;
  limits.device_type.assign(at(request.workers), 0);
  limits.device_type.insert(limits.device_type.end(), at(request.hosts), 1);
  limits.micro_batches.assign(limits.device_type.size(), kBatchesInFlight);
  if (request.hosts > 0) limits.host_type = 1;
  return limits;
}

int largest_stage(const LayerDivision& division, int host_type) {
  int largest = 0;
  double most = -1;
  for (size_t s = 0; s < division.memory.size(); ++s)
    if (division.device_types[s] != host_type && division.memory[s] > most) {
      most = division.memory[s];
      largest = static_cast<int>(s);
    }
  return largest;
}

Infeasible infeasible(LayerSearch& search, int64_t cap, int host_type) {
  const auto free = search.best();
  KERF_CHECK(free.has_value(), "no division, whatever it takes");
  const auto of_free =
      static_cast<int64_t>(std::ceil(free->memory[at(largest_stage(*free, host_type))]));
  int64_t enough = search.least_cap(cap, of_free);
  auto least = search.best_within(enough);
  if (!least) {  // a search of long lines does not try every boundary
    enough = of_free;
    least = free;
  }
  return {largest_stage(*least, host_type), cap, enough - cap, format("--memory {}", enough)};
}

}  // namespace

GraphPlan price_division(const CostGraph& graph, const std::vector<std::vector<int>>& stages,
                         const std::vector<int>& device_types) {
  GraphPlan plan;
  plan.stage_of.assign(at(graph.size()), -1);
  for (size_t s = 0; s < stages.size(); ++s) {
    const int type = device_types.empty() ? 0 : device_types[s];
    plan.stages.push_back({stages[s], type, 0, 0, 0, 0});
    for (const int node : stages[s]) {
      KERF_CHECK(plan.stage_of[at(node)] < 0, "node {} is in two stages", graph.node(node).name);
      plan.stage_of[at(node)] = static_cast<int>(s);
      plan.stages[s].work += graph.work(type, node).total();
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
  if (request.hosts < 0 || (request.hosts > 0 && graph.device_types() < 2))
    throw Error(ErrorCode::kUsage, format("{} hosts, but {} says nothing of what nodes take on one",
                                          request.hosts, graph.name()));
  const StageLimits limits = limits_of(request);
  LayerSearch search(graph, limits, request.slack, request.effort);
  if (request.workers > search.units())
    throw Error(ErrorCode::kInfeasible,
                format("a layer cut gives every worker at least one operator: {} workers, but {} "
                       "has {} groups of nodes that can be parted; use --workers {} or fewer",
                       request.workers, graph.name(), search.units(), search.units()));
  const auto division = request.memory ? search.best_within(*request.memory) : search.best();
  if (!division) {
    KERF_CHECK(request.memory.has_value(), "no division, and no cap that forbids one");
    return infeasible(search, *request.memory, limits.host_type);
  }
  GraphPlan plan = price_division(graph, division->stages, division->device_types);
  plan.bound = search.bound();
  plan.bound.value = std::min(plan.bound.value, plan.bottleneck);  // rounding may set it above
  return plan;
}

}  // namespace kerf::partitioner
