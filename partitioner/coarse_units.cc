#include "partitioner/coarse_units.h"

#include <algorithm>
#include <numeric>

#include "partitioner/at.h"
#include "partitioner/orders.h"

namespace kerf::partitioner {
namespace {

using Graph = decltype(Units::before);

// Groups of units that grow by joining, within a share of all work and of all memory, and of as
// many units as go with that: what weighs nothing would join without end.
class JoinedUnits {
 public:
  JoinedUnits(const Units& units, double most)
      : group_(at(units.size())), count_(at(units.size()), 1), work_(at(units.size())) {
    std::iota(group_.begin(), group_.end(), 0);
    for (const std::vector<double>& work : units.work)
      for (size_t u = 0; u < work.size(); ++u) work_[u] = std::max(work_[u], work[u]);
    memory_.resize(work_.size());
    for (const UnitHeld& held : units.held)
      for (const int unit : held.units) memory_[at(unit)] += held.fixed + held.per_micro_batch;
    most_work_ = most * std::accumulate(work_.begin(), work_.end(), 0.0);
    most_memory_ = most * std::accumulate(memory_.begin(), memory_.end(), 0.0);
    most_count_ = std::max(1.0, kMostOfMean * most * units.size());
  }

  int of(int unit) {
    while (group_[at(unit)] != unit) unit = group_[at(unit)] = group_[at(group_[at(unit)])];
    return unit;
  }
  // The second, a unit by itself, joins the group of the first, if there is room.
  void join(int first, int second) {
    const int group = of(first);
    if (work_[at(group)] + work_[at(second)] > most_work_ ||
        memory_[at(group)] + memory_[at(second)] > most_memory_ ||
        count_[at(group)] + 1 > most_count_)
      return;
    ++count_[at(group)];
    group_[at(second)] = group;
    work_[at(group)] += work_[at(second)];
    memory_[at(group)] += memory_[at(second)];
  }

 private:
  static constexpr double kMostOfMean = 4;  // units of a group that are light, over the mean

  std::vector<int> group_;
  std::vector<int> count_;             // of a group's units, at its first unit
  std::vector<double> work_, memory_;  // of a group, at its first unit
  double most_work_ = 0;
  double most_memory_ = 0;
  double most_count_ = 1;
};

// A unit that no group has yet joins that of all that it follows (or of all that follow it), if
// that is one group. Whatever leads from the group to the unit is within the group, so that there
// is no cycle.
void join_to_one(const Units& units, int unit, bool follows, JoinedUnits& groups) {
  int one = -1;
  const auto look = [&](size_t other) {
    const int group = groups.of(static_cast<int>(other));
    const bool same = one < 0 || one == group;
    one = group;
    return same;
  };
  if (follows) {
    const auto [begin, end] = boost::in_edges(at(unit), units.before);
    for (auto edge = begin; edge != end; ++edge)
      if (!look(boost::source(*edge, units.before))) return;
  } else {
    const auto [begin, end] = boost::out_edges(at(unit), units.before);
    for (auto edge = begin; edge != end; ++edge)
      if (!look(boost::target(*edge, units.before))) return;
  }
  if (one >= 0) groups.join(one, unit);
}

std::vector<int> distinct(const std::vector<int>& units, const std::vector<int>& coarse_of) {
  std::vector<int> result;
  for (const int unit : units) result.push_back(coarse_of[at(unit)]);
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

CoarseUnits coarse(const Units& units, JoinedUnits& groups, const std::vector<int>& order) {
  CoarseUnits result;
  result.coarse_of.assign(at(units.size()), -1);
  Units& made = result.units;
  std::vector<int> number(at(units.size()), -1);  // of a group, in the order in which they begin
  for (const int unit : order) {
    int& id = number[at(groups.of(unit))];
    if (id < 0) {
      id = made.size();
      made.members.emplace_back();
    }
    result.coarse_of[at(unit)] = id;
    const std::vector<int>& members = units.members[at(unit)];
    made.members[at(id)].insert(made.members[at(id)].end(), members.begin(), members.end());
  }
  made.unit_of.resize(units.unit_of.size());
  for (size_t node = 0; node < units.unit_of.size(); ++node)
    made.unit_of[node] = result.coarse_of[at(units.unit_of[node])];
  for (std::vector<int>& members : made.members) std::sort(members.begin(), members.end());
  for (const std::vector<double>& work : units.work) {
    std::vector<double>& sums = made.work.emplace_back(at(made.size()));
    for (int unit = 0; unit < units.size(); ++unit)
      sums[at(result.coarse_of[at(unit)])] += work[at(unit)];
  }
  for (const UnitValue& value : units.values) {
    const int producer = result.coarse_of[at(value.producer)];
    std::vector<int> readers = distinct(value.readers, result.coarse_of);
    std::erase(readers, producer);
    if (readers.empty()) continue;
    UnitValue& kept = made.values.emplace_back(value);
    kept.producer = producer;
    kept.readers = std::move(readers);
    kept.returns.clear();
    for (const auto& [unit, uses] : value.returns)
      append_turn(kept.returns, {result.coarse_of[at(unit)], uses});
  }
  HeldByUnits all(made.size());
  for (const UnitHeld& held : units.held)
    all.add(distinct(held.units, result.coarse_of), held.fixed, held.per_micro_batch);
  made.held = all.take();
  for (const auto& [a, b] : units.close)
    made.close.emplace_back(result.coarse_of[at(a)], result.coarse_of[at(b)]);
  Edges edges;
  const auto [begin, end] = boost::edges(units.before);
  for (auto edge = begin; edge != end; ++edge) {
    const int a = result.coarse_of[boost::source(*edge, units.before)];
    const int b = result.coarse_of[boost::target(*edge, units.before)];
    if (a != b) edges.emplace_back(a, b);
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  made.before =
      Graph(boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(), at(made.size()));
  return result;
}

}  // namespace

CoarseUnits join_chains(const Units& units, double most) {
  const std::vector<int> order = first_order(units);
  JoinedUnits groups(units, most);
  for (const int unit : order) {
    if (boost::in_degree(at(unit), units.before) != 1) continue;
    const size_t before =
        boost::source(*boost::in_edges(at(unit), units.before).first, units.before);
    if (boost::out_degree(before, units.before) == 1) groups.join(static_cast<int>(before), unit);
  }
  return coarse(units, groups, order);
}

CoarseUnits join_neighbours(const Units& units, double most) {
  const std::vector<int> order = first_order(units);
  JoinedUnits groups(units, most);
  for (const int unit : order) join_to_one(units, unit, true, groups);
  CoarseUnits once = coarse(units, groups, order);
  std::vector<int> again = first_order(once.units);
  JoinedUnits wider(once.units, most);
  for (size_t i = again.size(); i-- > 0;) join_to_one(once.units, again[i], false, wider);
  CoarseUnits twice = coarse(once.units, wider, again);
  for (int& unit : once.coarse_of) unit = twice.coarse_of[at(unit)];
  return {std::move(twice.units), std::move(once.coarse_of)};
}

}  // namespace kerf::partitioner
