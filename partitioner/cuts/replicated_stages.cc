#include "partitioner/cuts/replicated_stages.h"

#include <algorithm>
#include <cmath>

#include "partitioner/at.h"
#include "partitioner/cost.h"
#include "partitioner/cuts/growing_stage.h"
#include "partitioner/orders.h"

namespace kerf::partitioner {
namespace {

constexpr int kMostReplicaBoundaries = 1000;
constexpr double kMostRelaxed = 4e8;  // stages times replicas times workers, of an order

// Time of a byte on the wire, in the graph's unit; 0 where that is none of time.
double time_of_byte(const CostGraph& graph) {
  double time = 0;
  double bytes = 0;
  for (const CostValue& value : graph.values()) {
    time += value.enter;
    bytes += value.bytes;
  }
  if (time > 0 && bytes > 0) return time / bytes;
  const double of_second = graph.unit() == "s" ? 1 : graph.unit() == "ms" ? 1e3 : 0;
  return of_second / DeviceSpeed{}.link_bytes_per_second;
}

double all_reduce(double weights, int replicas, double of_byte) {
  return 2.0 * (replicas - 1) / replicas * weights * of_byte;
}

double stage_time(double work_and_wire, double weights, int replicas, double of_byte) {
  return std::max(work_and_wire / replicas, all_reduce(weights, replicas, of_byte));
}

double memory_of(double fixed, double per_batch, int replicas) {
  return fixed + per_batch / replicas;
}

// Dynamic programming over (boundary, workers used), of one order.
class ReplicatedLine {
 public:
  ReplicatedLine(const Units& units, std::vector<int> order, int workers, double memory,
                 double of_byte)
      : units_(units),
        order_(std::move(order)),
        workers_(workers),
        memory_(memory),
        of_byte_(of_byte) {
    find_boundaries();
  }

  // The least bottleneck, if it is below `enough`.
  double run(double enough) {
    best_.assign(boundaries_.size() * at(workers_ + 1), {});
    best(0, 0).value = 0;
    most_ = enough;
    for (size_t begin = 0; begin + 1 < boundaries_.size(); ++begin) grow(begin);
    return best(boundaries_.size() - 1, workers_).value;
  }

  // Of each stage: its units, and on how many workers.
  std::vector<std::pair<std::vector<int>, int>> stages() {
    std::vector<std::pair<std::vector<int>, int>> result;
    for (size_t end = boundaries_.size() - 1, used = at(workers_); end > 0;) {
      const Best& step = best(end, static_cast<int>(used));
      result.emplace_back(std::vector<int>(order_.begin() + boundaries_[step.begin],
                                           order_.begin() + boundaries_[end]),
                          step.replicas);
      end = step.begin;
      used -= at(step.replicas);
    }
    std::reverse(result.begin(), result.end());
    return result;
  }

 private:
  struct Best {
    double value = kNever;
    size_t begin = 0;
    int replicas = 0;
  };
  Best& best(size_t boundary, int used) { return best_[boundary * at(workers_ + 1) + at(used)]; }

  void find_boundaries() {
    const auto units = static_cast<double>(order_.size());
    const double most =
        std::min({units, 1.0 * kMostReplicaBoundaries, std::sqrt(kMostRelaxed) / workers_});
    boundaries_.push_back(0);
    for (double b = 1; b < most; ++b) {
      const auto boundary = static_cast<int>(b * units / most);
      if (boundary > boundaries_.back()) boundaries_.push_back(boundary);
    }
    boundaries_.push_back(static_cast<int>(order_.size()));
  }

  // All stages that begin there.
  void grow(size_t begin) {
    int fewest = workers_ + 1;  // used before
    for (int used = 0; used < workers_; ++used)
      if (best(begin, used).value < most_) fewest = std::min(fewest, used);
    if (fewest > workers_) return;
    stage_.start({order_.begin(), order_.begin() + boundaries_[begin]});
    StageTotals totals;
    for (size_t end = begin + 1; end < boundaries_.size(); ++end) {
      for (int p = boundaries_[end - 1]; p < boundaries_[end]; ++p)
        totals = stage_.add(order_[at(p)], totals);
      if (memory_of(totals.fixed, totals.per_micro_batch, workers_ - fewest) > memory_) return;
      if (totals.work[0] / (workers_ - fewest) >= most_) return;
      relax(begin, end, totals);
    }
  }

  void relax(size_t begin, size_t end, const StageTotals& totals) {
    const bool last = end + 1 == boundaries_.size();
    for (int replicas = 1; replicas <= workers_; ++replicas) {
      if (memory_of(totals.fixed, totals.per_micro_batch, replicas) > memory_) continue;
      const double own = stage_time(totals.work[0] + totals.wire, totals.fixed, replicas, of_byte_);
      if (own >= most_) continue;
      for (int used = last ? workers_ - replicas : 0; used + replicas <= workers_; ++used) {
        const double value = std::max(best(begin, used).value, own);
        Best& known = best(end, used + replicas);
        if (value < known.value) known = {value, begin, replicas};
      }
    }
  }

  const Units& units_;
  const std::vector<int> order_;
  const int workers_;
  const double memory_;
  const double of_byte_;
  GrowingStage stage_{units_};
  std::vector<int> boundaries_;
  std::vector<Best> best_;  // by boundary and workers used
  double most_ = kNever;    // above this nothing counts
};

}  // namespace

std::optional<ReplicatedStages> replicate_stages(const CostGraph& graph, const Units& units,
                                                 int workers, double memory) {
  const double of_byte = time_of_byte(graph);
  double least = kNever;
  std::optional<ReplicatedStages> result;
  for (std::vector<int>& order : topological_orders(units)) {
    ReplicatedLine line(units, std::move(order), workers, memory, of_byte);
    const double found = line.run(least);
    if (found >= least) continue;
    least = found;
    result.emplace();
    for (const auto& [stage, replicas] : line.stages()) {
      std::vector<int>& nodes = result->stages.emplace_back();
      for (const int unit : stage)
        nodes.insert(nodes.end(), units.members[at(unit)].begin(), units.members[at(unit)].end());
      std::sort(nodes.begin(), nodes.end());
      result->replicas.push_back(replicas);
    }
  }
  return result;
}

GraphPlan price_replicated(const CostGraph& graph, const ReplicatedStages& division) {
  const GraphPlan one = price_division(graph, {division.stages});
  const double of_byte = time_of_byte(graph);
  std::vector<double> fixed(division.stages.size());
  std::vector<double> per_batch(division.stages.size());
  for (const Held& held : graph.held()) {
    std::vector<int> stages;
    for (const int node : held.nodes) stages.push_back(one.stage_of[at(node)]);
    std::sort(stages.begin(), stages.end());
    stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
    for (const int stage : stages) {
      fixed[at(stage)] += held.fixed;
      per_batch[at(stage)] += held.per_micro_batch;
    }
  }
  GraphPlan plan = one;
  plan.workers.clear();
  plan.bottleneck = 0;
  for (size_t s = 0; s < division.stages.size(); ++s) {
    const int replicas = division.replicas[s];
    GraphWorker worker = one.workers[s];
    worker.work /= replicas;
    worker.wire = std::max(worker.wire / replicas,  // or for longer for the sums of weights
                           all_reduce(fixed[s], replicas, of_byte) - worker.work);
    worker.bytes_in = worker.bytes_in / replicas + 2.0 * (replicas - 1) / replicas * fixed[s];
    worker.memory = memory_of(fixed[s], per_batch[s], replicas);
    plan.bottleneck = std::max(plan.bottleneck, worker.load());
    plan.workers.insert(plan.workers.end(), at(replicas), worker);
  }
  return plan;
}

}  // namespace kerf::partitioner
