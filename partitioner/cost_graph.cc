#include "partitioner/cost_graph.h"

#include <algorithm>
#include <boost/graph/strong_components.hpp>
#include <set>

#include "runtime/error.h"

namespace kerf::partitioner {

namespace {

using PlainRows = boost::compressed_sparse_row_graph<boost::directedS>;

template <class Graph>
std::vector<int> components_of(const Graph& graph) {
  std::vector<int> component(boost::num_vertices(graph));
  const auto index = boost::get(boost::vertex_index, graph);
  boost::strong_components(graph, boost::make_iterator_property_map(component.begin(), index),
                           boost::vertex_index_map(index));
  return component;
}

CostGraph::Rows rows_of(const CostFigures& figures) {
  std::vector<std::pair<size_t, size_t>> edges;
  std::vector<CostEdge> carried;
  for (size_t v = 0; v < figures.values.size(); ++v)
    for (const int reader : figures.values[v].readers) {
      edges.emplace_back(figures.values[v].producer, reader);
      carried.push_back({static_cast<int>(v)});
    }
  return {boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(), carried.begin(),
          figures.nodes.size()};
}

void check(const CostFigures& figures) {
  const auto count = static_cast<int>(figures.nodes.size());
  KERF_CHECK(!figures.work.empty(), "{} names no device type", figures.name);
  for (const auto& work : figures.work)
    KERF_CHECK(work.size() == figures.nodes.size(), "{}: work of {} nodes, not {}", figures.name,
               work.size(), count);
  for (const CostValue& value : figures.values) {
    KERF_CHECK(value.producer >= 0 && value.producer < count, "{}: a value of node {}",
               figures.name, value.producer);
    int before = -1;
    for (const int reader : value.readers) {
      KERF_CHECK(reader > before && reader < count, "{}: reader {} after {}", figures.name, reader,
                 before);
      before = reader;
    }
  }
}

}  // namespace

CostGraph::CostGraph(CostFigures figures) : figures_(std::move(figures)) {
  check(figures_);
  rows_ = rows_of(figures_);
}

bool CostGraph::has_backward() const {
  return std::any_of(figures_.nodes.begin(), figures_.nodes.end(),
                     [](const CostNode& node) { return node.backward; });
}

std::vector<int> CostGraph::cycle() const {
  const std::vector<int> component = components_of(rows_);
  std::vector<int> count(component.size());
  for (const int c : component) ++count[static_cast<size_t>(c)];
  int cyclic = -1;
  for (int v = 0; v < size() && cyclic < 0; ++v)
    if (count[static_cast<size_t>(component[static_cast<size_t>(v)])] > 1)
      cyclic = component[static_cast<size_t>(v)];
  std::vector<int> members;
  for (int v = 0; v < size(); ++v)
    if (component[static_cast<size_t>(v)] == cyclic) members.push_back(v);
  for (const CostValue& value : figures_.values)
    if (members.empty() &&
        std::binary_search(value.readers.begin(), value.readers.end(), value.producer))
      members.push_back(value.producer);
  return members;
}

std::vector<int> strong_components(int vertices, const Edges& edges) {
  return components_of(PlainRows(boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(),
                                 static_cast<size_t>(vertices)));
}

bool is_acyclic(int vertices, const Edges& edges) {
  if (std::any_of(edges.begin(), edges.end(), [](const auto& e) { return e.first == e.second; }))
    return false;
  const std::vector<int> component = strong_components(vertices, edges);
  return std::set<int>(component.begin(), component.end()).size() == component.size();
}

namespace {

// Of each half, which stages feed which.
struct Halves {
  Edges forward, backward;
};

Halves halves_of(const CostGraph& graph, const std::vector<int>& stage_of) {
  Halves halves;
  const auto [begin, end] = boost::edges(graph.rows());
  for (auto edge = begin; edge != end; ++edge) {
    const auto from = static_cast<int>(boost::source(*edge, graph.rows()));
    const auto to = static_cast<int>(boost::target(*edge, graph.rows()));
    const int a = stage_of[static_cast<size_t>(from)];
    const int b = stage_of[static_cast<size_t>(to)];
    if (a == b || graph.node(from).backward != graph.node(to).backward) continue;
    (graph.node(from).backward ? halves.backward : halves.forward).emplace_back(a, b);
  }
  return halves;
}

}  // namespace

bool has_acyclic_stages(const CostGraph& graph, const std::vector<int>& stage_of, int stages) {
  const Halves halves = halves_of(graph, stage_of);
  return is_acyclic(stages, halves.forward) && is_acyclic(stages, halves.backward);
}

double cut_bytes(const CostGraph& graph, const std::vector<int>& stage_of) {
  double bytes = 0;
  std::vector<int> seen;
  for (const CostValue& value : graph.values()) {
    if (graph.node(value.producer).backward) continue;
    seen.assign(1, stage_of[static_cast<size_t>(value.producer)]);
    for (const int reader : value.readers) {
      const int stage = stage_of[static_cast<size_t>(reader)];
      if (graph.node(reader).backward || std::find(seen.begin(), seen.end(), stage) != seen.end())
        continue;
      seen.push_back(stage);
      bytes += value.forward_bytes;
    }
  }
  return bytes;
}

}  // namespace kerf::partitioner
