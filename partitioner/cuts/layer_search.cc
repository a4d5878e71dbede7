#include "partitioner/cuts/layer_search.h"

#include <algorithm>

#include "partitioner/at.h"
#include "partitioner/orders.h"
#include "runtime/error.h"

namespace kerf::partitioner {
namespace {

constexpr int kMostTightenings = 16;

}  // namespace

LayerSearch::LayerSearch(const CostGraph& graph, StageLimits limits)
    : graph_(graph), limits_(std::move(limits)), units_(units_of(graph)) {
  limits_.memory.assign(limits_.device_type.size(), kNever);
  for (std::vector<int>& order : topological_orders(units_))
    lines_.emplace_back(units_, std::move(order));
}

Bound LayerSearch::bound() const {
  double total = 0;
  double largest = 0;
  int heaviest = 0;
  for (int unit = 0; unit < units_.size(); ++unit) {
    double least = kNever;  // on the device type that is best at it
    for (const int type : limits_.device_type)
      least = std::min(least, units_.work[at(type)][at(unit)]);
    total += least;
    if (least <= largest) continue;
    largest = least;
    heaviest = unit;
  }
  const size_t stages = limits_.device_type.size();
  const double share = total / static_cast<double>(stages);
  if (share >= largest) return {share, format("all work over {}", plural(stages, "stage"))};
  const std::vector<int>& members = units_.members[at(heaviest)];
  return {largest,
          format("{}{}", graph_.node(members.front()).name,
                 members.size() == 1 ? " alone"
                                     : format(" and {} that stay with it", members.size() - 1))};
}

std::optional<LayerDivision> LayerSearch::best() const { return best_under(limits_); }

std::optional<LayerDivision> LayerSearch::best_under(const StageLimits& limits) const {
  std::vector<LineSearch> searches;
  for (const Line& line : lines_) searches.emplace_back(line, limits);
  const double lowest = bound().value;
  double bottleneck = kNever;
  for (const LineSearch& search : searches)
    bottleneck = std::min(bottleneck, search.least_bottleneck(lowest, bottleneck));
  if (bottleneck == kNever) return std::nullopt;
  for (const bool keep_close : {true, false}) {
    Segmentation best;
    const Line* line = nullptr;
    for (size_t o = 0; o < searches.size(); ++o) {
      Segmentation segmentation = searches[o].fewest_bytes(bottleneck, keep_close);
      if (segmentation.value >= best.value) continue;
      best = std::move(segmentation);
      line = &lines_[o];
    }
    if (line != nullptr) return division_of(*line, best);
  }
  throw Error(ErrorCode::kInternal, "a bottleneck was found, but no division that has it");
}

LayerDivision LayerSearch::division_of(const Line& line, const Segmentation& division) const {
  LayerDivision result;
  int begin = 0;
  for (size_t s = 0; s < division.ends.size(); ++s) {
    const int end = division.ends[s];
    std::vector<int>& nodes = result.stages.emplace_back();
    for (int p = begin; p < end; ++p) {
      const std::vector<int>& members = units_.members[at(line.order()[at(p)])];
      nodes.insert(nodes.end(), members.begin(), members.end());
    }
    std::sort(nodes.begin(), nodes.end());
    result.bottleneck = std::max(result.bottleneck, line.price(limits_.device_type[s], begin, end));
    result.memory.push_back(line.memory(limits_.micro_batches[s], begin, end));
    begin = end;
  }
  return result;
}

bool LayerSearch::has_division_within(int64_t cap) const {
  StageLimits limits = limits_;
  std::fill(limits.memory.begin(), limits.memory.end(), static_cast<double>(cap));
  return std::any_of(lines_.begin(), lines_.end(),
                     [&](const Line& line) { return LineSearch(line, limits).has_division(); });
}

std::optional<LayerDivision> LayerSearch::best_within(int64_t cap, const Peaks& peaks) const {
  const auto most = static_cast<double>(cap);
  StageLimits limits = limits_;  // at first none: the best of all may fit
  for (int attempt = 0; attempt < kMostTightenings; ++attempt) {
    auto division = best_under(limits);
    if (!division) return std::nullopt;
    const std::vector<double> taken = peaks(*division);
    if (std::all_of(taken.begin(), taken.end(), [&](double bytes) { return bytes <= most; }))
      return division;
    for (size_t s = 0; s < taken.size(); ++s) {
      // As much beyond what its nodes hold will the next one take.
      const double beyond = taken[s] - division->memory[s];
      if (attempt == 0 || taken[s] > most)
        limits.memory[s] = std::min(limits.memory[s], most - beyond);
    }
  }
  return std::nullopt;
}

}  // namespace kerf::partitioner
