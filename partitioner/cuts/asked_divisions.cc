#include "partitioner/cuts/asked_divisions.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "partitioner/cuts/feature_patterns.h"
#include "partitioner/cuts/shares_file.h"
#include "partitioner/cuts/spread.h"
#include "partitioner/cuts/ways.h"
#include "partitioner/stage_price.h"

namespace kerf::partitioner {
namespace {

using Asked = std::vector<std::optional<ops::Layout>>;

constexpr int kMostCorrections = 12;

// The features of every one-to-all operator, as `sets` has it for so many units.
template <class Sets>
Asked divide_features(const Model& model, int workers, const Sets& sets) {
  std::vector<int> parts(static_cast<size_t>(workers));
  std::iota(parts.begin(), parts.end(), 0);
  Asked asked(static_cast<size_t>(model.nodes()));
  for (NodeId node = 0; node < model.nodes(); ++node)
    if (is_one_to_all(model, node))
      asked[static_cast<size_t>(node)] = divided_features(model, node, parts, sets);
  return asked;
}

Asked in_proportion(const Model& model, const std::vector<double>& weights) {
  return divide_features(model, static_cast<int>(weights.size()),
                         [&](int64_t units) { return proportional_sets(units, weights); });
}

Asked by_pattern(const Model& model, const PlanRequest& request) {
  const std::string& pattern = request.steering.pattern;
  if (pattern == "proportional") return in_proportion(model, speeds_of(request));
  if (const int64_t block = block_of(pattern); block > 0)
    return divide_features(model, request.workers, [&](int64_t units) {
      return block_cyclic_sets(units, request.workers, block);
    });
  return divide_features(model, request.workers,
                         [&](int64_t units) { return ops::split_evenly(units, request.workers); });
}

// Seconds (or what is counted) of each worker.
std::vector<double> loads_of(const Model& model, const PlanRequest& request, const Asked& asked) {
  std::vector<int> parts(static_cast<size_t>(request.workers));
  std::iota(parts.begin(), parts.end(), 0);
  std::vector<double> loads(parts.size());
  Division division{.nodes = {}, .largest = request.largest_micro_batch()};
  division.nodes.resize(static_cast<size_t>(model.nodes()));
  const Spreading spreading(model, {.pairs = false});
  for (NodeId node = 0; node < model.nodes(); ++node) {
    const auto at = static_cast<size_t>(node);
    division.nodes[at] = asked[at] ? *asked[at] : spreading.divide(node, parts, division);
    for (const ops::Share& share : division.nodes[at].shares)
      loads[static_cast<size_t>(share.part)] += node_work(model, request, node, share.box).total() /
                                                request.speed.capacities.speed_of(share.part);
  }
  return loads;
}

// What operators take beside their features (launches, operands that all read) is no less for a
// share that is smaller: who has too much for that gets less.
Asked by_devices(const Model& model, const PlanRequest& request) {
  std::vector<double> weights = speeds_of(request);
  Asked best;
  double least = 0;
  for (int correction = 0; correction < kMostCorrections; ++correction) {
    Asked asked = in_proportion(model, weights);
    const std::vector<double> loads = loads_of(model, request, asked);
    const double most = *std::max_element(loads.begin(), loads.end());
    if (best.empty() || most < least) {
      best = std::move(asked);
      least = most;
    }
    const double mean =
        std::accumulate(loads.begin(), loads.end(), 0.0) / static_cast<double>(loads.size());
    for (size_t worker = 0; worker < weights.size(); ++worker)
      if (loads[worker] > 0) weights[worker] *= std::sqrt(mean / loads[worker]);
  }
  return best;
}

}  // namespace

std::vector<double> speeds_of(const PlanRequest& request) {
  std::vector<double> speeds;
  for (int worker = 0; worker < request.workers; ++worker)
    speeds.push_back(request.speed.capacities.speed_of(worker));
  return speeds;
}

std::vector<std::optional<ops::Layout>> asked_divisions(const Model& model,
                                                        const PlanRequest& request,
                                                        bool rewriting) {
  if (!request.shares.empty()) return read_shares(model, request, rewriting);
  if (!request.steering.pattern.empty()) return by_pattern(model, request);
  if (!request.steering.ways.empty()) return divided_by_ways(model, request, rewriting);
  if (!request.speed.capacities.empty()) return by_devices(model, request);
  throw Error(
      ErrorCode::kUsage,
      "the free cut needs to be told which worker computes what; give --pattern, --way, --devices, "
      "or --shares FILE with {\"kerf_shares\": 1, \"shares\": {\"NODE\": {\"WORKER\": "
      "\"0-9,12\"}}}");
}

}  // namespace kerf::partitioner
