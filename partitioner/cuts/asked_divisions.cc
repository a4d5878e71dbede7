#include "partitioner/cuts/asked_divisions.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "partitioner/at.h"
#include "partitioner/cuts/feature_patterns.h"
#include "partitioner/cuts/features.h"
#include "partitioner/cuts/idle_parts.h"
#include "partitioner/cuts/shares_file.h"
#include "partitioner/cuts/space.h"
#include "partitioner/cuts/spread.h"
#include "partitioner/cuts/ways.h"
#include "partitioner/stage_price.h"

namespace kerf::partitioner {
namespace {

using Asked = std::vector<std::optional<ops::Layout>>;

constexpr int kMostCorrections = 12;

// The features of every one-to-all operator, in blocks in turn.
Asked in_blocks(const Model& model, const PlanRequest& request, int64_t block) {
  Asked asked(at(model.nodes()));
  for (NodeId node = 0; node < model.nodes(); ++node) {
    if (!is_one_to_all(model, node)) continue;
    const ops::IterationSpace& space = model.op(node).space();
    ops::Layout layout =
        divide_features(space, all_parts(request), [&](int64_t units, std::span<const int> parts) {
          return block_cyclic_sets(units, static_cast<int>(parts.size()), block);
        });
    for (const ops::Share& share : layout.shares)
      if (const std::string why = ops::check_iterations(space, share.box, 1); !why.empty())
        throw Error(
            ErrorCode::kUsage,
            format("{} cannot be divided so: {}; use --pattern even", model.node(node).op, why),
            format("{}: node {}", model.name(), model.node(node).name));
    asked[at(node)] = std::move(layout);
  }
  return asked;
}

// Shares that are even or in proportion to speeds are what is made of whatever nothing is asked of.
Asked by_pattern(const Model& model, const PlanRequest& request) {
  const int64_t block = block_of(request.steering.pattern);
  return block > 0 ? in_blocks(model, request, block) : Asked(at(model.nodes()));
}

// In proportion to the weights, all nodes.
Division by_weights(const Model& model, const PlanRequest& request,
                    const std::vector<double>& weights) {
  Division division{.nodes = {}, .largest = request.largest_micro_batch()};
  division.nodes.resize(at(model.nodes()));
  const Spreading spreading(model, {.pairs = false, .by_rewrites = false, .speeds = weights});
  for (NodeId node = 0; node < model.nodes(); ++node)
    division.nodes[at(node)] = spreading.divide(node, all_parts(request), division);
  return division;
}

// Seconds (or what is counted) of each worker.
std::vector<double> loads_of(const Model& model, const PlanRequest& request,
                             const Division& division) {
  std::vector<double> loads(at(request.workers));
  for (NodeId node = 0; node < model.nodes(); ++node)
    for (const ops::Share& share : division.nodes[at(node)].shares)
      loads[at(share.part)] += node_work(model, request, node, share.box).total() /
                               request.speed.capacities.speed_of(share.part);
  return loads;
}

// What operators take beside their features (launches, operands that all read) is no less for a
// share that is smaller: who has too much for that gets less.
Asked by_devices(const Model& model, const PlanRequest& request) {
  std::vector<double> weights = request.speeds_of_parts();
  Division best;
  std::pair<size_t, double> least;  // who would be idle, and the most of all loads
  for (int correction = 0; correction < kMostCorrections; ++correction) {
    Division division = by_weights(model, request, weights);
    const std::vector<double> loads = loads_of(model, request, division);
    const std::pair most(idle_parts(model, request, division).size(),
                         *std::max_element(loads.begin(), loads.end()));
    if (best.nodes.empty() || most < least) {
      best = std::move(division);
      least = most;
    }
    const double mean =
        std::accumulate(loads.begin(), loads.end(), 0.0) / static_cast<double>(loads.size());
    for (size_t worker = 0; worker < weights.size(); ++worker)
      if (loads[worker] > 0) weights[worker] *= std::sqrt(mean / loads[worker]);
  }
  Asked asked(at(model.nodes()));
  for (NodeId node = 0; node < model.nodes(); ++node)
    if (is_one_to_all(model, node)) asked[at(node)] = std::move(best.nodes[at(node)]);
  return asked;
}

}  // namespace

std::vector<std::optional<ops::Layout>> asked_divisions(const Model& model,
                                                        const PlanRequest& request,
                                                        bool rewriting) {
  if (!request.shares.empty()) return read_shares(model, request, rewriting);
  if (!request.steering.pattern.empty()) return by_pattern(model, request);
  if (!request.steering.ways.empty()) return divided_by_ways(model, request, rewriting);
  if (!request.speed.capacities.empty()) return by_devices(model, request);
  return divisions_by_space(model, request, rewriting);
}

}  // namespace kerf::partitioner
