// The layer cut under a cap on memory: of what nodes hold, which the search knows; of what only the
// finished division shows, under ever tighter limits, or, where divisions are few, by looking at
// them all.
#include <algorithm>
#include <cmath>

#include "partitioner/at.h"
#include "partitioner/cuts/layer_divisions.h"
#include "partitioner/cuts/layer_search.h"

namespace kerf::partitioner {
namespace {

constexpr int kMostTightenings = 16;
constexpr int kMostLoosenings = 6;
constexpr double kCapRounding = 1e-9;
// What stages take beyond what their nodes hold is known to no more binary digits than these.
constexpr int kFinestBeyond = 14;
// Units of all divisions together, where all of them are looked at.
constexpr int kMostUnitsOfAll = 10'000;

}  // namespace

// An even share of all that is held, or the unit that holds most; hosts take whatever is left.
double LayerSearch::find_least_memory() const {
  double total = 0;
  double most = 0;
  if (limits_.host_type >= 0) return 0;
  const int in_flight =
      *std::min_element(limits_.micro_batches.begin(), limits_.micro_batches.end());
  for (const UnitHeld& held : units_.held) {
    const double bytes = held.fixed + in_flight * held.per_micro_batch;
    total += bytes;
    most = std::max(most, bytes);
  }
  return std::max(most, total / static_cast<double>(limits_.device_type.size()));
}

// What nodes hold grows with a stage, so that on each line a bisection finds it. What it finds is
// what a search over ideals has to improve on.
LayerSearch::LeastCap LayerSearch::least_cap(int64_t fails, int64_t enough,
                                             const std::vector<double>& beyond) const {
  const bool nodes_alone = beyond.empty();
  if (nodes_alone)
    fails =
        std::max(fails, static_cast<int64_t>(std::ceil(least_memory_ * (1 - kCapRounding))) - 1);
  LeastCap least{std::max(enough, fails + 1)};
  const auto orders = type_orders(limits_);
  const auto capped = [&](const StageLimits& order, int64_t cap) {
    StageLimits limits = order;
    limits.memory.assign(limits.device_type.size(), static_cast<double>(cap));
    for (size_t s = 0; s < beyond.size(); ++s) limits.memory[s] -= beyond[s];
    return with_types(limits, order.device_type);
  };
  for (const Line& line : lines_)
    for (const StageLimits& order : orders) {
      const auto fits = [&](int64_t cap) {
        const StageLimits limits = capped(order, cap);
        return LineSearch(line, limits).has_division();
      };
      if (least.bytes - 1 <= fails) break;
      if (!fits(least.bytes - 1)) continue;
      int64_t low = fails;
      --least.bytes;
      while (least.bytes - low > 1 + (least.bytes >> (nodes_alone ? 30 : kFinestBeyond))) {
        const int64_t middle = low + (least.bytes - low) / 2;
        (fits(middle) ? least.bytes : low) = middle;
      }
      const StageLimits limits = capped(order, least.bytes);
      Candidate found{&line, &limits, LineSearch(line, limits)};
      if (Segmentation segments = found.search.fewest_bytes(kNever, false); segments.found())
        least.division = division_of(Found{&found, std::move(segments)});
    }
  if (nodes_alone && ideals_ && least.bytes - 1 > fails) improve_cap(fails, least);
  return least;
}

void LayerSearch::improve_cap(int64_t fails, LeastCap& least) const {
  const auto chain = IdealSearch(units_, *ideals_, searched_facts(), limits_)
                         .least_memory(static_cast<double>(least.bytes - 1), visits());
  if (!chain || !chain->found()) return;
  least.bytes = std::clamp(static_cast<int64_t>(std::ceil(chain->value)), fails + 1, least.bytes);
  least.division = division_of(*chain, limits_);
}

std::optional<LayerDivision> LayerSearch::best_within(int64_t cap) {
  bound_ = bound_of_way_ = simple_;
  if (!can_fit(static_cast<double>(cap))) return std::nullopt;
  StageLimits limits = limits_;
  limits.memory.assign(limits.memory.size(), static_cast<double>(cap));
  return best_under(limits, true);
}

namespace {

bool is_under(const std::vector<double>& above) {
  return std::all_of(above.begin(), above.end(), [](double bytes) { return bytes <= 0; });
}

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
  return std::any_of(units.close.begin(), units.close.end(), [&](const auto& pair) {
    return stage_of(pair.first) != stage_of(pair.second);
  });
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
std::optional<LayerDivision> LayerSearch::best_of_few(std::vector<LayerDivision> few,
                                                      const Over& over) {
  std::stable_sort(few.begin(), few.end(), [](const LayerDivision& a, const LayerDivision& b) {
    return std::pair(a.bottleneck, a.bytes) < std::pair(b.bottleneck, b.bytes);
  });
  const auto first = std::find_if(few.begin(), few.end(),
                                  [&](const LayerDivision& each) { return is_under(over(each)); });
  if (first == few.end()) return std::nullopt;
  const double most = first->bottleneck * (1 + slack_) * (1 + kCapRounding);
  const auto key = [&](const LayerDivision& each) {
    return std::pair(parts_close(each, units_), each.bytes);
  };
  std::vector<const LayerDivision*> better;
  for (auto each = first + 1; each != few.end() && each->bottleneck <= most; ++each)
    if (key(*each) < key(*first)) better.push_back(&*each);
  std::stable_sort(better.begin(), better.end(),
                   [&](const auto* a, const auto* b) { return key(*a) < key(*b); });
  const auto best = std::find_if(better.begin(), better.end(),
                                 [&](const LayerDivision* each) { return is_under(over(*each)); });
  bound_ = bound_of_way_ = {first->bottleneck,
                            format("none of {} that fits is below it",
                                   plural(static_cast<int64_t>(few.size()), "division"))};
  none_fewer_ = !limits_.is_ordered();
  return best == better.end() ? *first : **best;
}

std::optional<LayerDivision> LayerSearch::best_within(const StageLimits& given, const Over& over) {
  bound_ = bound_of_way_ = simple_;
  looked_at_all_ = is_free_ = false;
  free_.reset();
  StageLimits limits = given;  // at first of no memory: the best of all may fit
  limits.memory.assign(limits.device_type.size(), kNever);
  for (int attempt = 0; attempt < kMostTightenings; ++attempt) {
    // Tightened limits may exclude what is within the caps.
    auto division = best_under(limits, attempt == 0);
    if (!division) return std::nullopt;
    const std::vector<double> above = over(*division);
    if (attempt == 0) free_ = division;
    is_free_ = attempt == 0 && is_under(above);
    if (is_under(above)) return division;
    if (attempt == 0) {
      if (auto few = few_divisions(limits)) {
        looked_at_all_ = true;
        return best_of_few(*std::move(few), over);
      }
      if (!limits.is_ordered()) lines_.emplace_back(units_, order_by_stage(*division));
    }
    for (size_t s = 0; s < above.size(); ++s)  // as much of it will the next one take
      if (attempt == 0 || above[s] > 0)
        limits.memory[s] = std::min(limits.memory[s], division->memory[s] - above[s]);
  }
  return std::nullopt;
}

// What one division's stages take beyond what their nodes hold is the next one's no more: limits go
// halfway to what that says, and never below what fits.
LayerDivision LayerSearch::best_from(LayerDivision fits, const Over& over) {
  if (looked_at_all_ || is_free_) return fits;
  StageLimits limits = limits_;
  limits.memory.assign(limits.memory.size(), kNever);
  LayerDivision last = fits;
  std::vector<double> above = over(last);
  std::vector<std::vector<std::vector<int>>> seen;
  for (int attempt = 0; attempt < kMostLoosenings; ++attempt) {
    for (size_t s = 0; s < above.size(); ++s) {
      const double room = last.memory[s] - above[s];
      const double before = limits.memory[s] == kNever ? room : limits.memory[s];
      limits.memory[s] = std::max(fits.memory[s], (before + room) / 2);
    }
    auto next = best_under(limits, false);
    const bool better = next && (fits.bottleneck > least_ * (1 + slack_) * (1 + kCapRounding) ||
                                 next->bytes < fits.bytes * (1 - kCapRounding));
    if (!better) break;
    if (std::ranges::find(seen, next->stages) != seen.end()) break;
    last = *std::move(next);
    seen.push_back(last.stages);
    above = over(last);
    if (is_under(above)) fits = last;
  }
  return fits;
}

}  // namespace kerf::partitioner
