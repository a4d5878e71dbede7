#include "partitioner/orders.h"

#include <algorithm>
#include <boost/graph/reverse_graph.hpp>
#include <boost/graph/topological_sort.hpp>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

namespace kerf::partitioner {

namespace {

using Order = std::vector<NodeId>;
using Graph = Model::FrozenGraph;

// Kahn 1962: repeatedly takes one node whose producers are all done; `pick` chooses among the ready
// ones, given in the order in which they became ready.
Order kahn(const Graph& graph, const std::function<size_t(const Order&)>& pick) {
  const auto count = boost::num_vertices(graph);
  std::vector<size_t> waits(count);
  Order ready;
  for (size_t v = 0; v < count; ++v) {
    waits[v] = boost::in_degree(v, graph);
    if (waits[v] == 0) ready.push_back(static_cast<NodeId>(v));
  }
  Order order;
  while (!ready.empty()) {
    const size_t at = pick(ready);
    const NodeId node = ready[at];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(at));
    order.push_back(node);
    const auto [begin, end] = boost::out_edges(static_cast<size_t>(node), graph);
    for (auto edge = begin; edge != end; ++edge)
      if (const auto next = boost::target(*edge, graph); --waits[next] == 0)
        ready.push_back(static_cast<NodeId>(next));
  }
  return order;
}

// Nodes on the longest path from each node to an end.
std::vector<int> distances_to_end(const Graph& graph, const Order& order) {
  std::vector<int> distance(order.size());
  for (size_t i = order.size(); i-- > 0;) {
    const auto node = static_cast<size_t>(order[i]);
    const auto [begin, end] = boost::out_edges(node, graph);
    for (auto edge = begin; edge != end; ++edge)
      distance[node] = std::max(distance[node], 1 + distance[boost::target(*edge, graph)]);
  }
  return distance;
}

// Always the node that leaves the fewest bytes alive.
Order least_alive(const Model& model, const Graph& graph) {
  std::vector<size_t> readers(static_cast<size_t>(model.values()));
  for (ValueId id = 0; id < model.values(); ++id)
    readers[static_cast<size_t>(id)] = model.uses(id).size();
  const auto bytes = [&](ValueId id) {
    return static_cast<int64_t>(model.value(id).spec.bytes(1));
  };
  const auto change = [&](NodeId id) {
    int64_t alive = 0;
    for (const ValueId output : model.node(id).outputs) alive += bytes(output);
    for (const ValueId input : model.node(id).inputs)
      if (model.value(input).role == Role::kActivation &&
          readers[static_cast<size_t>(input)] == 1)
        alive -= bytes(input);
    return alive;
  };
  return kahn(graph, [&](const Order& ready) {
    size_t best = 0;
    for (size_t i = 1; i < ready.size(); ++i)
      if (change(ready[i]) < change(ready[best])) best = i;
    for (const ValueId input : model.node(ready[best]).inputs)
      --readers[static_cast<size_t>(input)];
    return best;
  });
}

}  // namespace

std::vector<Order> topological_orders(const Model& model) {
  const Graph graph = model.freeze();
  std::vector<Order> orders;
  const auto add = [&](Order order) {
    if (std::find(orders.begin(), orders.end(), order) == orders.end())
      orders.push_back(std::move(order));
  };

  Order in_model_order(static_cast<size_t>(model.nodes()));
  std::iota(in_model_order.begin(), in_model_order.end(), 0);
  add(in_model_order);

  Order depth_first;  // Boost.Graph gives the last node first
  boost::topological_sort(graph, std::back_inserter(depth_first));
  std::reverse(depth_first.begin(), depth_first.end());
  add(depth_first);

  Order from_the_end;
  const auto reversed = boost::make_reverse_graph(graph);
  boost::topological_sort(reversed, std::back_inserter(from_the_end),
                          boost::vertex_index_map(boost::get(boost::vertex_index, graph)));
  add(from_the_end);

  add(kahn(graph, [](const Order&) { return size_t{0}; }));
  add(kahn(graph, [](const Order& ready) { return ready.size() - 1; }));

  const std::vector<int> distance = distances_to_end(graph, in_model_order);
  add(kahn(graph, [&](const Order& ready) {
    const auto farthest = std::max_element(ready.begin(), ready.end(), [&](NodeId a, NodeId b) {
      return distance[static_cast<size_t>(a)] < distance[static_cast<size_t>(b)];
    });
    return static_cast<size_t>(farthest - ready.begin());
  }));
  add(least_alive(model, graph));
  return orders;
}

bool is_acyclic(int vertices, const std::vector<std::pair<int, int>>& edges) {
  const Graph graph(boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(),
                    static_cast<size_t>(vertices));
  return kahn(graph, [](const Order&) { return size_t{0}; }).size() ==
         static_cast<size_t>(vertices);
}

}  // namespace kerf::partitioner
