#include "partitioner/cuts/layer_search.h"

#include <algorithm>
#include <map>

#include "partitioner/at.h"
#include "partitioner/coarse_units.h"
#include "partitioner/cuts/heaviest_stage.h"
#include "partitioner/cuts/ideal_search.h"
#include "partitioner/orders.h"
#include "runtime/error.h"

namespace kerf::partitioner {
namespace {

constexpr size_t kUnitsOfMostIdeals = 1'000;  // more units, fewer ideals
constexpr size_t kValuesOfUnit = 4;           // looked at in the time of a unit
constexpr size_t kBytesOfState = 16;
constexpr size_t kMostBytesOfStates = size_t{1} << 30;
// Figures so many times a bottleneck leave too much rounding behind for a proof.
constexpr double kMostSpread = 1e6;
constexpr size_t kMostTypeOrders = 16;
constexpr int64_t kShareForHeaviest = 8;  // of the visits of a search, those of one unit's stages
// Ideals of coarser units prove nothing: of these so many times fewer are enough.
constexpr size_t kFewerOfCoarser = 2;

// Of devices used, by type; or of stages.
size_t states_of(const StageLimits& limits) {
  if (limits.is_ordered()) return limits.worker.size() + 1;
  std::map<int, size_t> devices;
  for (const int type : limits.device_type) ++devices[type];
  size_t states = 1;
  for (const auto& [type, count] : devices) states *= count + 1;
  return states;
}

// A search looks at all units and values for each ideal, and keeps what is best for each state.
size_t most_ideals(const SearchEffort& effort, const Units& units, const StageLimits& limits) {
  const size_t looked_at =
      at(units.size()) + (units.values.size() + units.close.size()) / kValuesOfUnit + 1;
  if (units.work.size() > kMostTypes) return 0;
  return std::min({effort.ideals, effort.ideals * kUnitsOfMostIdeals / looked_at,
                   kMostBytesOfStates / kBytesOfState / states_of(limits)});
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

LayerSearch::LayerSearch(const CostGraph& graph, StageLimits limits, double slack,
                         const SearchEffort& effort)
    : LayerSearch(graph, units_of(graph), std::move(limits), slack, effort) {}

LayerSearch::LayerSearch(const CostGraph& graph, Units units, StageLimits limits, double slack,
                         const SearchEffort& effort)
    : graph_(graph),
      limits_(std::move(limits)),
      slack_(slack),
      effort_(effort),
      units_(std::move(units)),
      count_(units_.size()) {
  limits_.memory.assign(limits_.device_type.size(), kNever);
  if (graph.has_backward()) freed_ = units_of(graph, BackwardWay::kFree);
  simple_ = bound_ = find_simple_bound(freed_ ? *freed_ : units_);
  const auto stages = static_cast<double>(limits_.device_type.size());
  const bool may_join = limits_.rules == nullptr;  // rules are of these units
  coarse_ = count_ > kMostFineUnits && may_join;
  if (coarse_) units_ = join_neighbours(units_, kCoarseShare / stages).units;
  for (std::vector<int>& order : topological_orders(units_))
    lines_.emplace_back(units_, std::move(order));
  ideals_ = Ideals::of(units_, most_ideals(effort_, units_, limits_));
  for (const double share : {1.0 / 64, 1.0 / 16, 1.0 / 4, 1.0}) {
    if (ideals_ || coarser_ideals_ || !may_join) break;
    coarser_ = join_chains(units_, share / stages);
    coarser_ideals_ = Ideals::of(coarser_->units,
                                 most_ideals(effort_, coarser_->units, limits_) / kFewerOfCoarser);
  }
  least_memory_ = find_least_memory();
  for (const UnitValue& value : units_.values)
    largest_wire_ = std::max({largest_wire_, value.enter, value.leave});
  if (freed_) find_freed();
}

// Freed units have all divisions that these have. If they have no more ideals, they have no other.
void LayerSearch::find_freed() {
  one_way_ = false;
  if (coarse_ || !ideals_) return;
  freed_ideals_ = Ideals::of(*freed_, most_ideals(effort_, *freed_, limits_));
  one_way_ =
      freed_ideals_ && freed_ideals_->size() == ideals_->size() && freed_->size() == units_.size();
}

Bound LayerSearch::find_simple_bound(const Units& units) {
  double total = 0;
  double largest = 0;
  int heaviest = 0;
  for (int unit = 0; unit < units.size(); ++unit) {
    double least = kNever;  // on the device type that is best at it
    for (const int type : limits_.device_type)
      least = std::min(least, units.work[at(type)][at(unit)]);
    total += least;
    if (least <= largest) continue;
    largest = least;
    heaviest = unit;
  }
  const size_t stages = limits_.device_type.size();
  const double share = total / static_cast<double>(stages);
  if (share >= largest) return {share, format("all work over {}", plural(stages, "stage"))};
  heaviest_ = heaviest;
  const bool is_alone = units.members[at(heaviest)].size() == 1;
  return {largest, format("{}{}", heaviest_name(), is_alone ? " alone" : "")};
}

std::string LayerSearch::heaviest_name() const {
  const std::vector<int>& members = (freed_ ? *freed_ : units_).members[at(heaviest_)];
  const std::string& first = graph_.node(members.front()).name;
  return members.size() == 1 ? first
                             : format("{} and {} that stay with it", first, members.size() - 1);
}

StageLimits LayerSearch::with_types(const StageLimits& limits, const std::vector<int>& types) {
  StageLimits result = limits;
  result.device_type = types;
  result.micro_batches.resize(types.size());
  result.memory.resize(types.size());
  for (size_t s = 0; s < types.size(); ++s)
    if (types[s] == limits.host_type) result.memory[s] = kNever;
  return result;
}

// Where a host may stand anywhere, there is more to try.
int64_t LayerSearch::visits() const {
  return limits_.host_type < 0 ? effort_.visits : 4 * effort_.visits;
}

// Every order of the device types, without the hosts and with them; where there are many, the one
// given.
std::vector<StageLimits> LayerSearch::type_orders(const StageLimits& limits) const {
  if (limits.is_ordered()) return {limits};
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

Bound LayerSearch::bound() const {
  Bound result = bound_;
  if (none_fewer_ && slack_ > 0)
    result.witness +=
        format("; none within {:.6g} times it{} has fewer bytes", 1 + slack_,
               units_.close.empty() ? "" : " that keeps together what is better together");
  return result;
}

void LayerSearch::add_line(std::vector<int> order) {
  KERF_CHECK(!coarse_, "an order of {} units, which were joined", order.size());
  lines_.emplace_back(units_, std::move(order));
}

void LayerSearch::add_line(const LayerDivision& division) {
  lines_.emplace_back(units_, order_by_stage(division));
}

std::optional<LayerDivision> LayerSearch::best_of(const StageLimits& limits) {
  bound_ = bound_of_way_ = simple_;
  return best_under(limits, true);
}

void LayerSearch::start(Attempt& attempt) const {
  for (StageLimits& order : type_orders(attempt.limits)) {
    const StageLimits& kept = attempt.orders.emplace_back(std::move(order));
    for (const Line& line : lines_) attempt.add(line, kept);
    if (ideals_) break;  // the search over ideals tries them all
  }
}

// The lines first: they say what there is to improve on.
void LayerSearch::find_bottleneck(Attempt& attempt, bool proves) {
  start(attempt);
  const double least =
      proves ? simple_.value : bound_.value;  // which was proved under looser limits
  for (const Candidate& candidate : attempt.candidates)
    attempt.bottleneck =
        std::min(attempt.bottleneck, candidate.search.least_bottleneck(least, attempt.bottleneck));
  if (attempt.bottleneck > least * (1 + kBetter)) improve_bottleneck(attempt, proves);
}

// What proves nothing is one of many: on lines alone, in a tenth of the time, unless the order of
// the stages leaves little room on them.
std::optional<LayerDivision> LayerSearch::best_under(const StageLimits& limits, bool proves) {
  Attempt attempt{limits, proves || limits.is_ordered()};
  none_fewer_ = false;
  otherwise_.reset();
  find_bottleneck(attempt, proves);
  least_ = attempt.bottleneck;
  if (attempt.bottleneck == kNever) return std::nullopt;
  if (otherwise_) return best_of_ways(attempt);
  auto division = fewest_bytes(attempt, attempt.bottleneck * (1 + slack_));
  KERF_CHECK(division.has_value(), "a bottleneck was found, but no division that has it");
  none_fewer_ = proves && !limits.is_ordered() && one_way_ && attempt.none_fewer &&
                is_exact(least_, bound_.value);
  return division;
}

std::optional<LayerDivision> LayerSearch::fewest_bytes(Attempt& attempt, double price) const {
  for (const bool keep_close : {true, false}) {
    if (!keep_close && units_.close.empty()) continue;  // as before
    const Found found = fewest_bytes(attempt, price, keep_close);
    attempt.none_fewer = found.none_fewer;
    if (found.chain) return division_of(*found.chain, attempt.limits);
    if (found.candidate != nullptr) return division_of(found);
  }
  if (attempt.chain) return division_of(*attempt.chain, attempt.limits);
  return std::nullopt;
}

bool LayerSearch::may_prove(const Attempt& attempt) const {
  return attempt.bottleneck != kNever && largest_wire_ <= kMostSpread * attempt.bottleneck;
}

// Whether none of the stages with the heaviest unit is below the bottleneck, so that none is to be
// looked for.
bool LayerSearch::prove_by_heaviest(const Attempt& attempt) {
  const std::optional<Ideals>& ideals = freed_ ? freed_ideals_ : ideals_;
  if (heaviest_ < 0 || coarse_ || !ideals || !may_prove(attempt)) return false;
  const auto least = least_price_with(freed_ ? *freed_ : units_, *ideals, heaviest_,
                                      attempt.bottleneck, visits() / kShareForHeaviest);
  if (!least) return false;
  if (*least > bound_.value)
    bound_ = {*least, format("no stage that has {} is below it", heaviest_name())};
  return is_exact(attempt.bottleneck, *least);
}

// By ideals: those of the units, which proves it, or those of coarser units.
void LayerSearch::improve_bottleneck(Attempt& attempt, bool proves) {
  if (!attempt.over_ideals || !searched_ideals() || (proves && prove_by_heaviest(attempt))) return;
  const auto chain = search_of(attempt).least_bottleneck(attempt.bottleneck, visits());
  if (!chain) return;
  if (chain->found()) {
    add_chain(attempt, *chain);
    const Candidate& made = attempt.candidates.back();
    attempt.bottleneck = std::min(attempt.bottleneck,
                                  made.search.least_bottleneck(simple_.value, attempt.bottleneck));
    if (chain->value < attempt.bottleneck * (1 - kBetter)) {
      attempt.bottleneck = chain->value;
      attempt.chain = chain;
    }
  }
  if (proves && ideals_ && !coarse_ && attempt.bottleneck == kNever && attempt.limits.is_ordered())
    bound_ = {kNever, "no division at all"};
  if (proves && ideals_ && !coarse_ && may_prove(attempt)) prove(attempt, *chain);
}

void LayerSearch::add_chain(Attempt& attempt, const IdealChain& chain) const {
  std::vector<int> order = order_of(*searched_ideals(), chain, searched_units().size());
  if (!ideals_) order = finer(order, *coarser_, lines_.front().order());
  const Line& line = attempt.lines.emplace_back(units_, std::move(order));
  const StageLimits& limits =
      attempt.orders.emplace_back(with_types(attempt.limits, chain.device_types));
  attempt.add(line, limits);
}

LayerSearch::Found LayerSearch::fewest_bytes(Attempt& attempt, double price,
                                             bool keep_close) const {
  Found best;
  const auto look = [&](const Candidate& candidate) {
    Segmentation segments = candidate.search.fewest_bytes(price, keep_close);
    if (segments.value >= best.segments.value) return;
    best.candidate = &candidate;
    best.segments = std::move(segments);
  };
  for (const Candidate& candidate : attempt.candidates) look(candidate);
  if (!attempt.over_ideals || !searched_ideals()) return best;
  const auto chain =
      search_of(attempt).fewest_bytes(price, best.segments.value, keep_close, visits());
  best.none_fewer = chain && ideals_ && !coarse_;
  if (chain && chain->found()) {
    add_chain(attempt, *chain);
    look(attempt.candidates.back());
    if (chain->value < best.segments.value * (1 - kBetter)) best.chain = chain;
  }
  return best;
}

IdealSearch& LayerSearch::search_of(Attempt& attempt) const {
  if (!attempt.search)
    attempt.search = std::make_shared<IdealSearch>(searched_units(), *searched_ideals(),
                                                   searched_facts(), attempt.limits);
  return *attempt.search;
}

const IdealFacts& LayerSearch::searched_facts() const {
  if (!facts_) facts_.emplace(searched_units(), *searched_ideals());
  return *facts_;
}

}  // namespace kerf::partitioner
