#include "partitioner/graph_plan.h"

#include <algorithm>
#include <cmath>

#include "partitioner/at.h"
#include "partitioner/cuts/layer_search.h"
#include "partitioner/cuts/shared_devices.h"

namespace kerf::partitioner {
namespace {

// A file's graph says what one batch takes, and nothing of schedules.
constexpr int kBatchesInFlight = 1;
constexpr int kMostStagesPerWorker = 64;
constexpr int64_t kMovesOfStages = 200'000;

// The workers that read a value and do not make it, each once.
std::vector<int> readers_of(const CostValue& value, const std::vector<int>& worker_of) {
  std::vector<int> workers;
  for (const int reader : value.readers) workers.push_back(worker_of[at(reader)]);
  std::sort(workers.begin(), workers.end());
  workers.erase(std::unique(workers.begin(), workers.end()), workers.end());
  std::erase(workers, worker_of[at(value.producer)]);
  return workers;
}

// Whether each worker takes part once in the sum of the value's gradient.
bool returns_once(const CostValue& value, const std::vector<int>& worker_of) {
  return std::is_sorted(value.returns.begin(), value.returns.end(),
                        [&](int a, int b) { return worker_of[at(a)] < worker_of[at(b)]; });
}

void add_wire(const CostGraph& graph, const std::vector<int>& worker_of, GraphPlan& plan) {
  for (const CostValue& value : graph.values()) {
    const std::vector<int> readers = readers_of(value, worker_of);
    if (!readers.empty()) plan.workers[at(worker_of[at(value.producer)])].wire += value.leave;
    const bool once = returns_once(value, worker_of);
    for (const int worker : readers) {
      plan.workers[at(worker)].wire += once ? value.enter : value.enter - value.returning;
      plan.workers[at(worker)].bytes_in += once ? value.bytes : value.bytes - value.returned_bytes;
    }
    if (once) continue;
    for (const int reader : value.returns) {
      const int worker = worker_of[at(reader)];
      if (worker == worker_of[at(value.producer)]) continue;
      plan.workers[at(worker)].wire += value.returning;
      plan.workers[at(worker)].bytes_in += value.returned_bytes;
    }
  }
}

void add_memory(const CostGraph& graph, const std::vector<int>& worker_of, GraphPlan& plan) {
  for (const Held& held : graph.held()) {
    std::vector<int> workers;
    for (const int node : held.nodes) workers.push_back(worker_of[at(node)]);
    std::sort(workers.begin(), workers.end());
    workers.erase(std::unique(workers.begin(), workers.end()), workers.end());
    for (const int worker : workers)
      plan.workers[at(worker)].memory += held.fixed + kBatchesInFlight * held.per_micro_batch;
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

Infeasible infeasible(const CostGraph& graph, LayerSearch& search, int64_t cap, int host_type) {
  double all = 0;
  for (const Held& held : graph.held()) all += held.fixed + kBatchesInFlight * held.per_micro_batch;
  int64_t enough = search.least_cap(cap, static_cast<int64_t>(std::ceil(all)));
  auto least = search.best_within(enough);
  if (!least) {  // a search of long lines does not try every boundary
    least = search.best();
    enough =
        least ? static_cast<int64_t>(std::ceil(least->memory[at(largest_stage(*least, host_type))]))
              : cap;
  }
  KERF_CHECK(least.has_value(), "no division, whatever it takes");
  return {largest_stage(*least, host_type), cap, enough - cap, format("--memory {}", enough)};
}

}  // namespace

double GraphPlan::memory() const {
  double most = 0;
  for (const GraphWorker& worker : workers)
    if (worker.device_type == 0) most = std::max(most, worker.memory);
  return most;
}

GraphPlan price_division(const CostGraph& graph, const GraphDivision& division) {
  GraphPlan plan;
  plan.stage_of.assign(at(graph.size()), -1);
  std::vector<int> worker_of(at(graph.size()), -1);  // by node
  for (size_t s = 0; s < division.stages.size(); ++s) {
    const int worker = division.worker_of.empty() ? static_cast<int>(s) : division.worker_of[s];
    if (at(worker) >= plan.workers.size()) plan.workers.resize(at(worker) + 1);
    GraphWorker& its = plan.workers[at(worker)];
    its.stages.push_back(static_cast<int>(s));
    its.device_type = division.device_types.empty() ? 0 : division.device_types[at(worker)];
    for (const int node : division.stages[s]) {
      KERF_CHECK(plan.stage_of[at(node)] < 0, "node {} is in two stages", graph.node(node).name);
      plan.stage_of[at(node)] = static_cast<int>(s);
      worker_of[at(node)] = worker;
      its.work += graph.work(its.device_type, node).total();
    }
  }
  for (int node = 0; node < graph.size(); ++node) {
    KERF_CHECK(plan.stage_of[at(node)] >= 0, "node {} is in no stage", graph.node(node).name);
    plan.workers[at(worker_of[at(node)])].nodes.push_back(node);
  }
  add_wire(graph, worker_of, plan);
  add_memory(graph, worker_of, plan);
  for (const GraphWorker& worker : plan.workers)
    plan.bottleneck = std::max(plan.bottleneck, worker.load());
  plan.cut_bytes = cut_bytes(graph, worker_of);
  plan.acyclic = has_acyclic_stages(graph, plan.stage_of, static_cast<int>(division.stages.size()));
  return plan;
}

namespace {

void check(const CostGraph& graph, const GraphRequest& request) {
  const auto fail = [](std::string why) { throw Error(ErrorCode::kUsage, std::move(why)); };
  if (request.workers < 1) fail(format("--workers {}: needs at least 1", request.workers));
  if (!(request.slack >= 0 && request.slack <= kMostSlack))
    fail(format("--slack {}: is not within 0 and {}", request.slack, kMostSlack));
  if (request.memory && *request.memory < 1)
    fail(format("--memory {}: needs at least 1 byte", *request.memory));
  if (request.hosts < 0 || (request.hosts > 0 && graph.device_types() < 2))
    fail(format("{} hosts, but {} says nothing of what nodes take on one", request.hosts,
                graph.name()));
  if (request.stages_per_worker < 1 || request.stages_per_worker > kMostStagesPerWorker)
    fail(format("--stages-per-worker {}: is not within 1 and {}", request.stages_per_worker,
                kMostStagesPerWorker));
  if (request.stages_per_worker > 1 && (request.hosts > 0 || request.slack > 0))
    fail("--stages-per-worker is for workers of one kind, and without --slack");
}

GraphPlan priced(const CostGraph& graph, const LayerDivision& division) {
  return price_division(graph, {division.stages, {}, division.device_types});
}

// Several stages on each worker, from a plan with one.
GraphPlan shared_plan(const CostGraph& graph, const GraphRequest& request, const GraphPlan& one) {
  const Units units = units_of(graph);
  std::vector<int> start(at(units.size()));
  for (int node = 0; node < graph.size(); ++node)
    start[at(units.unit_of[at(node)])] = one.stage_of[at(node)];
  const SharedDevices shared = share_devices(
      units,
      {request.workers, request.stages_per_worker,
       request.memory ? static_cast<double>(*request.memory) : kNever, kMovesOfStages},
      start);
  // Stages that were left empty are none.
  std::vector<std::vector<int>> nodes(shared.device_of.size());
  for (int node = 0; node < graph.size(); ++node)
    nodes[at(shared.stage_of[at(units.unit_of[at(node)])])].push_back(node);
  GraphDivision division;
  for (size_t s = 0; s < nodes.size(); ++s)
    if (!nodes[s].empty()) {
      division.stages.push_back(std::move(nodes[s]));
      division.worker_of.push_back(shared.device_of[s]);
    }
  return price_division(graph, division);
}

}  // namespace

std::variant<GraphPlan, Infeasible> plan_graph(const CostGraph& graph,
                                               const GraphRequest& request) {
  check(graph, request);
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
    return infeasible(graph, search, *request.memory, limits.host_type);
  }
  GraphPlan plan = priced(graph, *division);
  plan.bound = search.bound();
  if (request.stages_per_worker > 1) {
    plan = shared_plan(graph, request, plan);
    plan.bound = search.simple_bound();  // what a search proves is of one stage a worker
  }
  plan.bound.value = std::min(plan.bound.value, plan.bottleneck);  // rounding may set it above
  return plan;
}

std::vector<GraphPlan> front_of(const CostGraph& graph, const GraphRequest& request) {
  check(graph, request);
  LayerSearch search(graph, limits_of(request), 0, request.effort);
  std::vector<GraphPlan> plans;
  for (const LayerDivision& division : search.front(request.memory))
    plans.push_back(priced(graph, division));
  for (GraphPlan& plan : plans) plan.bound = search.bound();
  return plans;
}

}  // namespace kerf::partitioner
