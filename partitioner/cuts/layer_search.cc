#include "partitioner/cuts/layer_search.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "partitioner/at.h"
#include "partitioner/coarse_units.h"
#include "partitioner/cuts/ideal_search.h"
#include "partitioner/orders.h"
#include "runtime/error.h"

namespace kerf::partitioner {
namespace {

constexpr int kMostTightenings = 16;
constexpr int kMostFineUnits = 20'000;
constexpr double kCoarseShare = 1.0 / 400;  // of a stage's work, in a coarse unit
constexpr size_t kMostTypeOrders = 16;
constexpr double kBetter = 1e-9;  // by less nothing is better

StageLimits with_types(const StageLimits& limits, const std::vector<int>& types) {
  StageLimits result = limits;
  result.device_type = types;
  result.micro_batches.resize(types.size());
  result.memory.resize(types.size());
  for (size_t s = 0; s < types.size(); ++s)
    if (types[s] == limits.host_type) result.memory[s] = kNever;
  return result;
}

// The order of an ideal chain's units: stage by stage, within each by rank.
std::vector<int> order_of(const Ideals& ideals, const IdealChain& chain, int units) {
  std::vector<int> stage_of(at(units), -1);
  for (size_t s = 0; s < chain.ideals.size(); ++s)
    for (const int unit : ideals.units_in(chain.ideals[s]))
      if (stage_of[at(unit)] < 0) stage_of[at(unit)] = static_cast<int>(s);
  std::vector<int> order(at(units));
  for (int unit = 0; unit < units; ++unit) order[at(unit)] = unit;
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return std::pair(stage_of[at(a)], ideals.rank(a)) < std::pair(stage_of[at(b)], ideals.rank(b));
  });
  return order;
}

// Each coarse unit's own units by their order.
std::vector<int> finer(const std::vector<int>& coarse_order, const CoarseUnits& coarse,
                       const std::vector<int>& order) {
  std::vector<int> place(coarse_order.size());
  for (size_t p = 0; p < coarse_order.size(); ++p) place[at(coarse_order[p])] = static_cast<int>(p);
  std::vector<int> result = order;
  std::stable_sort(result.begin(), result.end(), [&](int a, int b) {
    return place[at(coarse.coarse_of[at(a)])] < place[at(coarse.coarse_of[at(b)])];
  });
  return result;
}

}  // namespace

// All lines that divisions under some limits are looked for on.
struct LayerSearch::Attempt {
  struct Candidate {
    const Line* line = nullptr;
    const StageLimits* limits = nullptr;
    LineSearch search;
  };
  void add(const Line& line, const StageLimits& order) {
    candidates.push_back({&line, &order, LineSearch(line, order)});
  }

  const StageLimits& limits;
  std::deque<StageLimits> orders;  // of device types
  std::deque<Line> lines;          // beside the search's own
  std::deque<Candidate> candidates;
  double bottleneck = kNever;
};

LayerSearch::LayerSearch(const CostGraph& graph, StageLimits limits, double slack,
                         const SearchEffort& effort)
    : graph_(graph),
      limits_(std::move(limits)),
      slack_(slack),
      effort_(effort),
      units_(units_of(graph)),
      count_(units_.size()) {
  limits_.memory.assign(limits_.device_type.size(), kNever);
  simple_ = bound_ = simple_bound();
  const auto stages = static_cast<double>(limits_.device_type.size());
  coarse_ = count_ > kMostFineUnits;
  if (coarse_) units_ = join_neighbours(units_, kCoarseShare / stages).units;
  for (std::vector<int>& order : topological_orders(units_))
    lines_.emplace_back(units_, std::move(order));
  ideals_ = Ideals::of(units_, effort_.ideals);
  for (const double share : {1.0 / 64, 1.0 / 16, 1.0 / 4, 1.0}) {
    if (ideals_ || coarser_ideals_) break;
    coarser_ = join_chains(units_, share / stages);
    coarser_ideals_ = Ideals::of(coarser_->units, effort_.ideals);
  }
}

Bound LayerSearch::simple_bound() const {
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

// Every order of the device types, without the hosts and with them; where there are many, the one
// given.
std::vector<StageLimits> LayerSearch::type_orders(const StageLimits& limits) const {
  std::vector<StageLimits> result;
  std::vector<int> types = limits.device_type;
  std::sort(types.begin(), types.end());
  do result.push_back(with_types(limits, types));
  while (result.size() <= kMostTypeOrders && std::next_permutation(types.begin(), types.end()));
  if (result.size() > kMostTypeOrders) result = {with_types(limits, limits.device_type)};
  if (limits.host_type < 0) return result;
  std::erase(types, limits.host_type);
  result.insert(result.begin(), with_types(limits, types));
  return result;
}

std::optional<LayerDivision> LayerSearch::best() {
  bound_ = simple_;
  return best_under(limits_, true);
}

std::optional<LayerDivision> LayerSearch::best_under(const StageLimits& limits, bool proves) {
  Attempt attempt{limits, {}, {}, {}};
  for (StageLimits& order : type_orders(limits)) {
    const StageLimits& kept = attempt.orders.emplace_back(std::move(order));
    for (const Line& line : lines_) attempt.add(line, kept);
    if (ideals_) break;  // the search over ideals tries them all
  }
  for (const Attempt::Candidate& candidate : attempt.candidates)
    attempt.bottleneck = std::min(
        attempt.bottleneck, candidate.search.least_bottleneck(simple_.value, attempt.bottleneck));
  if (attempt.bottleneck > simple_.value * (1 + kBetter)) improve_bottleneck(attempt, proves);
  if (attempt.bottleneck == kNever) return std::nullopt;
  const double price = attempt.bottleneck * (1 + slack_);
  for (const bool keep_close : {true, false})
    if (const Found found = fewest_bytes(attempt, price, keep_close); found.line != nullptr)
      return division_of(found);
  throw Error(ErrorCode::kInternal, "a bottleneck was found, but no division that has it");
}

// By ideals: those of the units, which proves it, or those of coarser units.
void LayerSearch::improve_bottleneck(Attempt& attempt, bool proves) {
  const Units& units = ideals_ ? units_ : coarser_->units;
  const std::optional<Ideals>& ideals = ideals_ ? ideals_ : coarser_ideals_;
  if (!ideals) return;
  IdealSearch search(units, *ideals, attempt.limits);
  const auto chain = search.least_bottleneck(attempt.bottleneck, effort_.visits);
  if (!chain) return;
  if (chain->found()) {
    add_chain(attempt, *chain);
    const Attempt::Candidate& made = attempt.candidates.back();
    attempt.bottleneck = std::min(attempt.bottleneck,
                                  made.search.least_bottleneck(simple_.value, attempt.bottleneck));
  }
  if (!ideals_ || coarse_ || !proves || attempt.bottleneck == kNever) return;
  double least = chain->value;
  if (search.met_turns()) {
    const auto once = IdealSearch(units, *ideals, attempt.limits, GrowingStage::Sums::kOnce)
                          .least_bottleneck(attempt.bottleneck, effort_.visits);
    if (!once) return;
    least = once->value;
  }
  least = std::min(least, attempt.bottleneck);
  if (least > bound_.value)
    bound_ = {least, format("none of {} leads below it", plural(ideals->size(), "ideal"))};
}

void LayerSearch::add_chain(Attempt& attempt, const IdealChain& chain) const {
  const Units& units = ideals_ ? units_ : coarser_->units;
  std::vector<int> order = order_of(ideals_ ? *ideals_ : *coarser_ideals_, chain, units.size());
  if (!ideals_) order = finer(order, *coarser_, lines_.front().order());
  const Line& line = attempt.lines.emplace_back(units_, std::move(order));
  const StageLimits& limits =
      attempt.orders.emplace_back(with_types(attempt.limits, chain.device_types));
  attempt.add(line, limits);
}

LayerSearch::Found LayerSearch::fewest_bytes(Attempt& attempt, double price, bool keep_close) {
  Found best;
  const auto look = [&](const Attempt::Candidate& candidate) {
    Segmentation segments = candidate.search.fewest_bytes(price, keep_close);
    if (segments.value < best.segments.value)
      best = {candidate.line, candidate.limits, std::move(segments)};
  };
  for (const Attempt::Candidate& candidate : attempt.candidates) look(candidate);
  const Units& units = ideals_ ? units_ : coarser_->units;
  const std::optional<Ideals>& ideals = ideals_ ? ideals_ : coarser_ideals_;
  if (!ideals) return best;
  const auto chain = IdealSearch(units, *ideals, attempt.limits)
                         .fewest_bytes(price, best.segments.value, keep_close, effort_.visits);
  if (chain && chain->found()) {
    add_chain(attempt, *chain);
    look(attempt.candidates.back());
  }
  return best;
}

LayerDivision LayerSearch::division_of(const Found& found) const {
  LayerDivision result;
  result.device_types = found.limits->device_type;
  int begin = 0;
  for (size_t s = 0; s < found.segments.ends.size(); ++s) {
    const int end = found.segments.ends[s];
    std::vector<int>& nodes = result.stages.emplace_back();
    for (int p = begin; p < end; ++p) {
      const std::vector<int>& members = units_.members[at(found.line->order()[at(p)])];
      nodes.insert(nodes.end(), members.begin(), members.end());
    }
    std::sort(nodes.begin(), nodes.end());
    result.memory.push_back(found.line->memory(found.limits->micro_batches[s], begin, end));
    begin = end;
  }
  return result;
}

// What nodes hold grows with a stage, so that on each line a bisection finds it.
int64_t LayerSearch::least_cap(int64_t fails, int64_t enough) const {
  if (ideals_) {
    const auto least = IdealSearch(units_, *ideals_, limits_)
                           .least_memory(static_cast<double>(enough), effort_.visits);
    if (least && least->found())
      return std::max(fails + 1, static_cast<int64_t>(std::ceil(least->value)));
  }
  const auto orders = type_orders(limits_);
  for (const Line& line : lines_)
    for (const StageLimits& order : orders) {
      StageLimits capped = order;
      const auto fits = [&](int64_t cap) {
        capped.memory.assign(capped.memory.size(), static_cast<double>(cap));
        capped = with_types(capped, order.device_type);
        return LineSearch(line, capped).has_division();
      };
      if (!fits(enough - 1)) continue;
      int64_t low = fails;
      --enough;
      while (enough - low > 1 + (enough >> 30)) {
        const int64_t middle = low + (enough - low) / 2;
        (fits(middle) ? enough : low) = middle;
      }
    }
  return enough;
}

std::optional<LayerDivision> LayerSearch::best_within(int64_t cap, const Peaks& peaks) {
  bound_ = simple_;
  const auto most = static_cast<double>(cap);
  StageLimits limits = limits_;  // at first none: the best of all may fit
  for (int attempt = 0; attempt < kMostTightenings; ++attempt) {
    // Tightened limits may exclude what is within the cap.
    auto division = best_under(limits, attempt == 0 || !peaks);
    if (!division) return std::nullopt;
    const std::vector<double> taken = peaks ? peaks(*division) : division->memory;
    bool fits = true;
    for (size_t s = 0; s < taken.size(); ++s) {
      const bool capped = division->device_types[s] != limits_.host_type;
      fits = fits && (!capped || taken[s] <= most);
      // As much beyond what its nodes hold will the next one take.
      const double beyond = taken[s] - division->memory[s];
      if (capped && (attempt == 0 || taken[s] > most))
        limits.memory[s] = std::min(limits.memory[s], most - beyond);
      else if (attempt == 0)
        limits.memory[s] = std::min(limits.memory[s], most);
    }
    if (fits) return division;
  }
  return std::nullopt;
}

}  // namespace kerf::partitioner
