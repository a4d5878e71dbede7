// All divisions into layers, where they are few: then the best of those that may be is proved by
// looking at them all, even at what shows on the finished division only.
#include <algorithm>

#include "partitioner/at.h"
#include "partitioner/cuts/every_chain.h"
#include "partitioner/cuts/layer_search.h"

namespace kerf::partitioner {
namespace {

// Units of all divisions together, where all of them are looked at.
constexpr int kMostUnitsOfAll = 10'000;

// Whether the rules of a row of workers allow of these stages.
bool meets_rules(const LayerDivision& division, const Units& units, const StageLimits& limits) {
  if (limits.rules == nullptr) return true;
  for (size_t s = 0; s < division.stages.size(); ++s) {
    StageRules rules;
    for (const int node : division.stages[s])
      if (!limits.rules->add(units.unit_of[at(node)], rules)) return false;
    if (rules.worker >= 0 && rules.worker != limits.worker[s]) return false;
  }
  return true;
}

bool parts_close(const LayerDivision& division, const Units& units) {
  const std::vector<int> by_node = division.stage_of(static_cast<int>(units.unit_of.size()));
  const auto stage_of = [&](int unit) { return by_node[at(units.members[at(unit)].front())]; };
  return std::ranges::any_of(
      units.close, [&](const auto& pair) { return stage_of(pair.first) != stage_of(pair.second); });
}

}  // namespace

std::optional<std::vector<LayerDivision>> LayerSearch::few_divisions(
    const StageLimits& limits) const {
  const std::vector<int>& types = limits.device_type;
  const bool is_one_order =
      limits.is_ordered() ||
      std::all_of(types.begin(), types.end(), [&](int type) { return type == types.front(); });
  if (!ideals_ || coarse_ || !one_way_ || !is_one_order || limits.host_type >= 0)
    return std::nullopt;
  const auto chains = every_chain(*ideals_, units_.size(), static_cast<int>(types.size()),
                                  at(kMostUnitsOfAll / units_.size()));
  if (!chains) return std::nullopt;
  std::vector<LayerDivision> few;
  for (const Chain& chain : *chains)
    if (LayerDivision division = division_of(IdealChain{0, chain, types}, limits);
        meets_rules(division, units_, limits))
      few.push_back(std::move(division));
  return few;
}

// By bottleneck the first that fits; of those within the slack of it then that of the fewest bytes.
std::optional<LayerDivision> LayerSearch::best_of_few(
    std::vector<LayerDivision> few, const std::function<bool(const LayerDivision&)>& fits) {
  std::ranges::stable_sort(
      few, {}, [](const LayerDivision& each) { return std::pair(each.bottleneck, each.bytes); });
  const auto first = std::ranges::find_if(few, fits);
  if (first == few.end()) return std::nullopt;
  const double most = first->bottleneck * (1 + slack_) * (1 + kBetter);
  const auto key = [&](const LayerDivision& each) {
    return std::pair(parts_close(each, units_), each.bytes);
  };
  std::vector<LayerDivision> better;
  for (auto each = first + 1; each != few.end() && each->bottleneck <= most; ++each)
    if (key(*each) < key(*first)) better.push_back(*each);
  std::ranges::stable_sort(better, {}, key);
  const auto best = std::ranges::find_if(better, fits);
  bound_ = bound_of_way_ = {first->bottleneck, format("none of {} that fits is below it",
                                                      plural(std::ssize(few), "division"))};
  none_fewer_ = !limits_.is_ordered();
  return best == better.end() ? *first : *best;
}

}  // namespace kerf::partitioner
