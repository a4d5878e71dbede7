#include "apps/report/worker_speeds.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "apps/report/operator_times.h"
#include "partitioner/connector.h"
#include "partitioner/cost.h"

namespace kerf::apps {

namespace {

constexpr int kSweeps = 200;  // over all shares: each brings the fit nearer

// An operator on a worker, in logarithms: how many times as long as it costs it takes.
struct Share {
  size_t node = 0;
  size_t worker = 0;
  double times = 0;
  double weight = 0;
};

// By node and worker, seconds of a step as they cost.
std::map<std::pair<size_t, size_t>, double> costs_of(const partitioner::Model& model,
                                                     const partitioner::Plan& plan) {
  std::map<std::pair<size_t, size_t>, double> costs;
  for (const partitioner::Computation& each : computations(model, plan.division))
    for (const auto& [samples, count] : plan.sizes().counted(plan.batch))
      costs[{static_cast<size_t>(each.node),
             static_cast<size_t>(plan.binding[static_cast<size_t>(each.part)])}] +=
          count * partitioner::node_cost(model, each.node, each.iterations,
                                         plan.largest_micro_batch(), samples)
                      .total_seconds();
  return costs;
}

// Of operators that several workers share.
std::vector<Share> shares_of(const partitioner::Model& model, const partitioner::Plan& plan,
                             std::span<const runtime::WorkerTrace> traces,
                             std::span<const double> step_seconds) {
  const auto costs = costs_of(model, plan);
  std::vector<Share> shares;
  std::map<size_t, int> workers;  // of each node
  for (const runtime::WorkerTrace& trace : traces)
    for (const OperatorTimes& each : operator_times(model, plan, {&trace, 1}, step_seconds, {})) {
      const auto node = static_cast<size_t>(model.find_node(each.name));
      const auto worker = static_cast<size_t>(trace.worker);
      const auto cost = costs.find({node, worker});
      if (cost == costs.end() || cost->second <= 0) continue;
      shares.push_back(
          {node, worker, std::log(each.measured.total() / cost->second), cost->second});
      ++workers[node];
    }
  std::erase_if(shares, [&](const Share& share) { return workers[share.node] < 2; });
  return shares;
}

// What is left of shares' times beside `others`, on average of those that `key` takes together.
void fit(const std::vector<Share>& shares, size_t Share::*key, const std::vector<double>& others,
         size_t Share::*other, std::vector<double>& fitted) {
  std::vector<double> sums(fitted.size()), weights(fitted.size());
  for (const Share& share : shares) {
    sums[share.*key] += share.weight * (share.times - others[share.*other]);
    weights[share.*key] += share.weight;
  }
  for (size_t i = 0; i < fitted.size(); ++i)
    if (weights[i] > 0) fitted[i] = sums[i] / weights[i];
}

}  // namespace

// Least squares of times = how wrong the operator's cost is + how slow the worker is, by turns. The
// weighted mean of the second stays what it was at first in all that are connected.
std::vector<double> speeds_by_shares(const partitioner::Model& model, const partitioner::Plan& plan,
                                     std::span<const runtime::WorkerTrace> traces,
                                     std::span<const double> step_seconds,
                                     const std::vector<double>& planned) {
  const std::vector<Share> shares = shares_of(model, plan, traces, step_seconds);
  std::vector<double> of_node(static_cast<size_t>(model.nodes()));
  std::vector<double> of_worker;
  for (const double speed : planned) of_worker.push_back(-std::log(speed));
  for (int sweep = 0; sweep < kSweeps && !shares.empty(); ++sweep) {
    fit(shares, &Share::node, of_worker, &Share::worker, of_node);
    fit(shares, &Share::worker, of_node, &Share::node, of_worker);
  }
  std::vector<double> speeds = planned;
  for (const Share& share : shares) speeds[share.worker] = std::exp(-of_worker[share.worker]);
  return speeds;
}

}  // namespace kerf::apps
