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
Edges precedence(const CostGraph& graph, const std::vector<int>& group, bool reversed) {
  Edges edges;
  const auto [begin, end] = boost::edges(graph.rows());
  for (auto edge = begin; edge != end; ++edge) {
    const auto from = static_cast<int>(boost::source(*edge, graph.rows()));
    const auto to = static_cast<int>(boost::target(*edge, graph.rows()));
    if (graph.node(from).backward != graph.node(to).backward) continue;
    const int a = group[at(from)];
    const int b = group[at(to)];
    if (a == b) continue;
    if (graph.node(from).backward && reversed)
      edges.emplace_back(b, a);
    else
      edges.emplace_back(a, b);
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

Units numbered_units(const CostGraph& graph, bool reversed) {
  Units units;
  const std::vector<int> first = first_of_colour(graph);
  const std::vector<int> component =
      strong_components(graph.size(), precedence(graph, first, reversed));
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
  const Edges edges = precedence(graph, units.unit_of, reversed);
  units.before = decltype(units.before)(boost::edges_are_unsorted_multi_pass, edges.begin(),
                                        edges.end(), at(units.size()));
  return units;
}

// Of the two ways to run the backward half the one that leaves more to part.
Units best_units(const CostGraph& graph) {
  Units reversed = numbered_units(graph, true);
  bool backward = false;
  for (int node = 0; node < graph.size(); ++node) backward = backward || graph.node(node).backward;
  if (!backward) return reversed;
  Units along = numbered_units(graph, false);
  return along.size() > reversed.size() ? along : reversed;
}

std::vector<int> distinct_units(const Units& units, const std::vector<int>& nodes) {
  std::vector<int> result;
  for (const int node : nodes) result.push_back(units.unit_of[at(node)]);
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

}  // namespace

Units units_of(const CostGraph& graph) {
  Units units = best_units(graph);
  for (int type = 0; type < graph.device_types(); ++type) {
    std::vector<double>& work = units.work.emplace_back(at(units.size()));
    for (int node = 0; node < graph.size(); ++node)
      work[at(units.unit_of[at(node)])] += graph.work(type, node).total();
  }
  for (const CostValue& value : graph.values()) {
    const int producer = units.unit_of[at(value.producer)];
    std::vector<int> readers = distinct_units(units, value.readers);
    std::erase(readers, producer);
    if (!readers.empty())
      units.values.push_back({producer, std::move(readers), value.bytes, value.enter, value.leave});
  }
  for (const Held& held : graph.held())
    units.held.push_back({distinct_units(units, held.nodes), held.fixed, held.per_micro_batch});
  for (const auto& [a, b] : graph.close())
    units.close.emplace_back(units.unit_of[at(a)], units.unit_of[at(b)]);
  return units;
}

}  // namespace kerf::partitioner
