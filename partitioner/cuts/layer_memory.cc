// The layer cut under a cap on what nodes hold, which the search knows: the least cap is found by
// bisection on each line, and by a search over ideals where these are enumerated.
#include <algorithm>
#include <cmath>

#include "partitioner/cuts/layer_search.h"

namespace kerf::partitioner {
namespace {

constexpr double kMemoryRounding = 1e-9;
// What stages take beyond what their nodes hold is known to no more binary digits than these.
constexpr int kFinestBeyond = 14;

double bytes_of(const UnitHeld& held, int in_flight) {
  return held.fixed + in_flight * held.per_micro_batch;
}

}  // namespace

double LayerSearch::all_held() const {
  const int in_flight = std::ranges::max(limits_.micro_batches);
  double all = 0;
  for (const UnitHeld& held : units_.held) all += bytes_of(held, in_flight);
  return all;
}

// An even share of all that is held, or the unit that holds most; hosts take whatever is left.
double LayerSearch::find_least_memory() const {
  double total = 0;
  double most = 0;
  if (limits_.host_type >= 0) return 0;
  const int in_flight = std::ranges::min(limits_.micro_batches);
  for (const UnitHeld& held : units_.held) {
    const double bytes = bytes_of(held, in_flight);
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
        std::max(fails, static_cast<int64_t>(std::ceil(least_memory_ * (1 - kMemoryRounding))) - 1);
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
  if (static_cast<double>(cap) < least_memory_ * (1 - kMemoryRounding)) return std::nullopt;
  StageLimits limits = limits_;
  limits.memory.assign(limits.memory.size(), static_cast<double>(cap));
  return best_under(limits, true);
}

}  // namespace kerf::partitioner
