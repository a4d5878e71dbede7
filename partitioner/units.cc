#include "partitioner/units.h"

#include <algorithm>
#include <map>

#include "partitioner/at.h"

namespace kerf::partitioner {
namespace {

// The first node of its colour, or itself.
std::vector<int> first_of_colour(const CostGraph& graph) {
  std::map<int, int> first;
  std::vector<int> result;
  for (int node = 0; node < graph.size(); ++node) {
    const int colour = graph.node(node).colour;
    result.push_back(colour < 0 ? node : first.try_emplace(colour, node).first->second);
  }
  return result;
}

// Which of two nodes' groups comes first, for each edge within a half.
Edges precedence(const CostGraph& graph, const std::vector<int>& group, BackwardWay way) {
  Edges edges;
  const auto [begin, end] = boost::edges(graph.rows());
  for (auto edge = begin; edge != end; ++edge) {
    const auto from = static_cast<int>(boost::source(*edge, graph.rows()));
    const auto to = static_cast<int>(boost::target(*edge, graph.rows()));
    if (graph.node(from).backward != graph.node(to).backward) continue;
    const int a = group[at(from)];
    const int b = group[at(to)];
    if (a == b) continue;
    if (graph.node(from).backward && way == BackwardWay::kFree) continue;
    if (graph.node(from).backward && way == BackwardWay::kReversed)
      edges.emplace_back(b, a);
    else
      edges.emplace_back(a, b);
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

Units numbered_units(const CostGraph& graph, BackwardWay way) {
  Units units;
  const std::vector<int> first = first_of_colour(graph);
  const std::vector<int> component = strong_components(graph.size(), precedence(graph, first, way));
  std::vector<int> unit_of_component(component.size(), -1);
  for (int node = 0; node < graph.size(); ++node) {
    int& unit = unit_of_component[at(component[at(first[at(node)])])];
    if (unit < 0) {
      unit = units.size();
      units.members.emplace_back();
    }
    units.members[at(unit)].push_back(node);
    units.unit_of.push_back(unit);
  }
  const Edges edges = precedence(graph, units.unit_of, way);
  units.before = decltype(units.before)(boost::edges_are_unsorted_multi_pass, edges.begin(),
                                        edges.end(), at(units.size()));
  return units;
}

std::vector<int> units_of_nodes(const Units& units, const std::vector<int>& nodes) {
  std::vector<int> result;
  result.reserve(nodes.size());
  for (const int node : nodes) result.push_back(units.unit_of[at(node)]);
  return result;
}

void make_distinct(std::vector<int>& units) {
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
}

}  // namespace

void append_turn(std::vector<UnitTurn>& returns, UnitTurn turn) {
  if (returns.empty() || returns.back().unit != turn.unit)
    returns.push_back(turn);
  else
    returns.back().uses += turn.uses;
}

void HeldByUnits::add(std::vector<int> units, double fixed, double per_micro_batch) {
  if (units.size() > 1) make_distinct(units);
  if (units.empty()) return;
  if (units.size() > 1) {
    shared_.push_back({std::move(units), fixed, per_micro_batch});
    return;
  }
  fixed_[at(units[0])] += fixed;
  per_micro_batch_[at(units[0])] += per_micro_batch;
}

std::vector<UnitHeld> HeldByUnits::take() {
  for (size_t unit = 0; unit < fixed_.size(); ++unit)
    if (fixed_[unit] > 0 || per_micro_batch_[unit] > 0)
      shared_.push_back({{static_cast<int>(unit)}, fixed_[unit], per_micro_batch_[unit]});
  return std::move(shared_);
}

Units units_of(const CostGraph& graph, BackwardWay way) {
  Units units = numbered_units(graph, way);
  for (int type = 0; type < graph.device_types(); ++type) {
    std::vector<double>& work = units.work.emplace_back(at(units.size()));
    for (int node = 0; node < graph.size(); ++node)
      work[at(units.unit_of[at(node)])] += graph.work(type, node).total();
  }
  for (const CostValue& value : graph.values()) {
    const int producer = units.unit_of[at(value.producer)];
    std::vector<int> readers = units_of_nodes(units, value.readers);
    make_distinct(readers);
    std::erase(readers, producer);
    if (readers.empty()) continue;
    units.values.push_back({producer, std::move(readers), value.bytes, value.enter, value.leave,
                            value.returned_bytes, value.returning});
    for (const int reader : value.returns)
      append_turn(units.values.back().returns, {units.unit_of[at(reader)]});
  }
  HeldByUnits all(units.size());
  for (const Held& held : graph.held())
    all.add(units_of_nodes(units, held.nodes), held.fixed, held.per_micro_batch);
  units.held = all.take();
  for (const auto& [a, b] : graph.close())
    if (units.unit_of[at(a)] != units.unit_of[at(b)])
      units.close.emplace_back(units.unit_of[at(a)], units.unit_of[at(b)]);
  std::sort(units.close.begin(), units.close.end());
  units.close.erase(std::unique(units.close.begin(), units.close.end()), units.close.end());
  return units;
}

std::vector<Units> ways_of(const CostGraph& graph) {
  std::vector<Units> ways{units_of(graph, BackwardWay::kReversed)};
  if (!graph.has_backward()) return ways;
  ways.push_back(units_of(graph, BackwardWay::kAlong));
  if (ways[1].size() > ways[0].size()) std::swap(ways[0], ways[1]);
  return ways;
}

Units units_of(const CostGraph& graph) { return std::move(ways_of(graph).front()); }

}  // namespace kerf::partitioner
