#include "partitioner/cuts/feature_patterns.h"

#include <cmath>
#include <numeric>

namespace kerf::partitioner {

using ops::IndexSet;
using ops::Range;

std::vector<IndexSet> block_cyclic_sets(int64_t units, int workers, int64_t block) {
  std::vector<std::vector<Range>> ranges(static_cast<size_t>(workers));
  for (int64_t begin = 0, turn = 0; begin < units; begin += block, ++turn)
    ranges[static_cast<size_t>(turn % workers)].push_back(
        {begin, begin + std::min(block, units - begin)});
  std::vector<IndexSet> sets;
  for (std::vector<Range>& of_worker : ranges)
    sets.push_back(IndexSet(std::move(of_worker)).normalized(units));
  return sets;
}

std::vector<IndexSet> proportional_sets(int64_t units, const std::vector<double>& weights) {
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<IndexSet> sets;
  double sum = 0;
  int64_t begin = 0;
  for (size_t worker = 0; worker < weights.size(); ++worker) {
    sum += weights[worker];
    const bool last = worker + 1 == weights.size();
    const int64_t end =
        last ? units : std::llround(static_cast<double>(units) * std::min(1.0, sum / all));
    std::vector<Range> range;
    if (end > begin) range.push_back({begin, end});
    sets.push_back(IndexSet(std::move(range)).normalized(units));
    begin = std::max(begin, end);
  }
  return sets;
}

int divisible_features(const Model& model, NodeId node) {
  if (model.op(node).is_loss()) return -1;
  const auto& axes = model.op(node).space().axes;
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].kind == ops::AxisKind::kFeature && axes[i].undivided.empty())
      return static_cast<int>(i);
  return -1;
}

ops::Layout divided_features(const Model& model, NodeId node, const std::vector<int>& parts,
                             const std::function<std::vector<IndexSet>(int64_t units)>& sets) {
  const ops::IterationSpace& space = model.op(node).space();
  const int axis = divisible_features(model, node);
  const ops::IterationAxis& features = space.axes[static_cast<size_t>(axis)];
  std::vector<IndexSet> in_features;
  for (const IndexSet& units : sets(features.extent / features.unit)) {
    std::vector<Range> ranges;
    if (!units.empty())
      for (const Range& range : units.ranges(features.extent / features.unit))
        ranges.push_back({range.begin * features.unit, range.end * features.unit});
    in_features.push_back(IndexSet(std::move(ranges)).normalized(features.extent));
  }
  ops::Layout layout =
      ops::Layout::split(parts, static_cast<int>(space.axes.size()), axis, in_features);
  for (const ops::Share& share : layout.shares)
    if (const std::string why = ops::check_iterations(space, share.box, 1); !why.empty())
      throw Error(
          ErrorCode::kUsage,
          format("{} cannot be divided so: {}; use --pattern even", model.node(node).op, why),
          format("{}: node {}", model.name(), model.node(node).name));
  return layout;
}

}  // namespace kerf::partitioner
