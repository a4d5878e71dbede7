// What a division of a graph costs each worker.
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "partitioner/at.h"
#include "partitioner/graph_plan.h"
#include "runtime/error.h"

namespace kerf::partitioner {
namespace {

// The workers that read a value and do not make it, each once.
std::vector<int> readers_of(const CostValue& value, const std::vector<int>& worker_of) {
  std::vector<int> workers;
  for (const int reader : value.readers) workers.push_back(worker_of[at(reader)]);
  std::sort(workers.begin(), workers.end());
  workers.erase(std::unique(workers.begin(), workers.end()), workers.end());
  std::erase(workers, worker_of[at(value.producer)]);
  return workers;
}

// Tensors that each worker returns of a value. The summands are added in the reverse of `returns`,
// and a sum on its way goes towards the maker only: what a stage adds before anything of an earlier
// one (the maker's own is earlier than all) is one sum, the rest leaves by itself.
std::map<int, int64_t> returned(const CostValue& value, const std::vector<int>& worker_of,
                                const std::vector<int>& stage_of) {
  std::map<int, int64_t> tensors;
  std::set<int> summing;
  const int maker = worker_of[at(value.producer)];
  int lowest = std::numeric_limits<int>::max();  // of stages that have added something
  for (auto use = value.returns.rbegin(); use != value.returns.rend(); ++use) {
    const int worker = worker_of[at(*use)];
    const int stage = worker == maker ? -1 : stage_of[at(*use)];
    if (worker != maker && (stage > lowest || summing.insert(worker).second)) ++tensors[worker];
    lowest = std::min(lowest, stage);
  }
  return tensors;
}

// A worker pays for one tensor that it returns of a value with what enters, then for each further.
void add_wire(const CostGraph& graph, const std::vector<int>& worker_of, GraphPlan& plan) {
  for (const CostValue& value : graph.values()) {
    const int maker = worker_of[at(value.producer)];
    const std::vector<int> readers = readers_of(value, worker_of);
    if (!readers.empty()) plan.workers[at(maker)].wire += value.leave;
    for (const int worker : readers) {
      plan.workers[at(worker)].wire += value.enter;
      plan.workers[at(worker)].bytes_in += value.bytes;
    }
    if (readers.empty() || value.returns.size() < 2) continue;
    for (const auto& [worker, tensors] : returned(value, worker_of, plan.stage_of)) {
      const auto further = static_cast<double>(tensors - 1);
      plan.workers[at(worker)].wire += further * value.returning;
      plan.workers[at(worker)].bytes_in += further * value.returned_bytes;
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

}  // namespace kerf::partitioner
