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

void LayerSearch::prove_by_all(double bottleneck, size_t divisions) {
  bound_ =
      bound_of_way_ = {bottleneck, format("none of {} that fits is below it",
                                          plural(static_cast<int64_t>(divisions), "division"))};
  none_fewer_ = !limits_.is_ordered();
}

}  // namespace kerf::partitioner
