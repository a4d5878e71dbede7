// A backward half that is not tied to the forward one may run in a way of its own: stages have no
// cycle in either half, but the one does not say in which order the other has them. Units that
// leave it free have all such divisions, and some whose backward half has a cycle.
#include <algorithm>

#include "partitioner/at.h"
#include "partitioner/cuts/every_chain.h"
#include "partitioner/cuts/layer_search.h"

namespace kerf::partitioner {
namespace {

// Units of all divisions together, where all of them are looked at.
constexpr int kMostUnitsOfEveryWay = 200'000;

bool is_within_memory(const LayerDivision& division, const StageLimits& limits) {
  for (size_t s = 0; s < division.memory.size(); ++s)
    if (division.memory[s] > limits.memory[s]) return false;
  return true;
}

}  // namespace

void LayerSearch::prove(const Attempt& attempt, const IdealChain& found) {
  const auto set = [&](Bound& bound, const IdealChain& chain, const Ideals& ideals) {
    if (const double least = std::min(chain.value, attempt.bottleneck); least > bound.value)
      bound = {least, format("none of {} leads below it", plural(ideals.size(), "ideal"))};
  };
  set(one_way_ ? bound_ : bound_of_way_, found, *ideals_);
  if (one_way_ || !freed_ideals_) return;
  const auto chain =
      IdealSearch(*freed_, *freed_ideals_, IdealFacts(*freed_, *freed_ideals_), attempt.limits)
          .least_bottleneck(attempt.bottleneck, visits());
  if (!chain) return;
  set(bound_, *chain, *freed_ideals_);
  if (chain->found() && chain->value < attempt.bottleneck * (1 - kBetter))
    look_otherwise(attempt, *chain);
}

// All divisions, where they are few and stages alike, which proves the best of them; else the one
// that the search over ideals has led to.
void LayerSearch::look_otherwise(const Attempt& attempt, const IdealChain& least) {
  const std::vector<int>& types = attempt.limits.device_type;
  const bool are_alike = std::ranges::all_of(types, [&](int type) { return type == types[0]; });
  std::optional<std::vector<Chain>> all;
  if (are_alike && attempt.limits.host_type < 0)
    all = every_chain(*freed_ideals_, freed_->size(), static_cast<int>(types.size()),
                      at(kMostUnitsOfEveryWay / freed_->size()));
  std::vector<IdealChain> chains{least};
  if (all)
    for (const Chain& chain : *all) chains.push_back({0, chain, types});
  double best = attempt.bottleneck;
  for (const IdealChain& chain : chains) {
    LayerDivision division = division_of(*freed_, *freed_ideals_, chain, attempt.limits);
    if (division.bottleneck >= best * (1 - kBetter) ||
        !is_within_memory(division, with_types(attempt.limits, chain.device_types)))
      continue;
    const std::vector<int> stage_of = division.stage_of(graph_.size());
    if (!has_acyclic_stages(graph_, stage_of, static_cast<int>(division.stages.size()))) continue;
    best = division.bottleneck;
    otherwise_ = std::move(division);
  }
  if (all && best > bound_.value)
    bound_ = {best, format("none of {} is below it", plural(std::ssize(*all), "division"))};
}

// The one that is better otherwise, or of fewer bytes one that runs as the units do.
LayerDivision LayerSearch::best_of_ways(Attempt& attempt) {
  least_ = otherwise_->bottleneck;
  const double most = least_ * (1 + slack_);
  if (attempt.bottleneck > most) return *otherwise_;
  const auto division = fewest_bytes(attempt, most);
  return division && division->bytes < otherwise_->bytes ? *division : *otherwise_;
}

}  // namespace kerf::partitioner
