#include "partitioner/orders.h"

#include <algorithm>
#include <boost/graph/reverse_graph.hpp>
#include <boost/graph/topological_sort.hpp>
#include <functional>
#include <iterator>
#include <queue>
#include <utility>

#include "partitioner/at.h"

namespace kerf::partitioner {
namespace {

using Order = std::vector<int>;
using Graph = decltype(Units::before);

// A ready unit: of the least rank first, of equals that which became ready first.
struct Ready {
  double rank = 0;
  int turn = 0;
  int unit = 0;
  bool operator>(const Ready& other) const {
    return std::pair(rank, turn) > std::pair(other.rank, other.turn);
  }
};

// Kahn 1962: repeatedly takes one unit whose predecessors are all done. Boost.Graph has only the
// depth-first way. rank(unit, turn) says which of the ready ones; taken(unit, again) may lower
// ranks, by again(unit).
class Kahn {
 public:
  explicit Kahn(const Graph& graph)
      : graph_(graph), waits_(boost::num_vertices(graph)), turn_(waits_.size(), -1) {}

  template <class Rank, class Taken>
  Order run(const Rank& rank, const Taken& taken) {
    const auto push = [&](int unit) {
      if (turn_[at(unit)] < 0) turn_[at(unit)] = turns_++;
      ready_.push({static_cast<double>(rank(unit, turn_[at(unit)])), turn_[at(unit)], unit});
    };
    for (size_t u = 0; u < waits_.size(); ++u)
      if ((waits_[u] = boost::in_degree(u, graph_)) == 0) push(static_cast<int>(u));
    Order order;
    std::vector<bool> done(waits_.size());
    while (!ready_.empty()) {
      const int unit = ready_.top().unit;
      ready_.pop();
      if (done[at(unit)]) continue;  // it was there again, of a lower rank
      done[at(unit)] = true;
      order.push_back(unit);
      taken(unit, [&](int other) {
        if (!done[at(other)] && waits_[at(other)] == 0) push(other);
      });
      const auto [begin, end] = boost::out_edges(at(unit), graph_);
      for (auto edge = begin; edge != end; ++edge)
        if (const auto next = boost::target(*edge, graph_); --waits_[next] == 0)
          push(static_cast<int>(next));
    }
    return order;
  }
  template <class Rank>
  Order run(const Rank& rank) {
    return run(rank, [](int, const auto&) {});
  }

 private:
  const Graph& graph_;
  std::vector<size_t> waits_;
  std::vector<int> turn_;  // in which it became ready
  int turns_ = 0;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready_;
};

// Units on the longest path from each unit to an end.
std::vector<int> distances_to_end(const Graph& graph, const Order& order) {
  std::vector<int> distance(order.size());
  for (size_t i = order.size(); i-- > 0;) {
    const size_t unit = at(order[i]);
    const auto [begin, end] = boost::out_edges(unit, graph);
    for (auto edge = begin; edge != end; ++edge)
      distance[unit] = std::max(distance[unit], 1 + distance[boost::target(*edge, graph)]);
  }
  return distance;
}

// Always the unit that leaves the fewest bytes alive.
Order least_alive(const Units& units) {
  std::vector<double> change(at(units.size()));
  std::vector<std::vector<int>> reads(at(units.size()));
  std::vector<size_t> readers;
  const auto last_reader = [&](const UnitValue& value, const std::vector<bool>& taken) {
    return *std::find_if(value.readers.begin(), value.readers.end(),
                         [&](int reader) { return !taken[at(reader)]; });
  };
  std::vector<bool> taken(at(units.size()));
  for (size_t v = 0; v < units.values.size(); ++v) {
    const UnitValue& value = units.values[v];
    change[at(value.producer)] += value.bytes;
    for (const int reader : value.readers) reads[at(reader)].push_back(static_cast<int>(v));
    readers.push_back(value.readers.size());
    if (readers.back() == 1) change[at(value.readers.front())] -= value.bytes;
  }
  return Kahn(units.before)
      .run([&](int unit, int) { return change[at(unit)]; },
           [&](int unit, const auto& again) {
             taken[at(unit)] = true;
             for (const int v : reads[at(unit)])
               if (--readers[at(v)] == 1) {
                 const int last = last_reader(units.values[at(v)], taken);
                 change[at(last)] -= units.values[at(v)].bytes;
                 again(last);
               }
           });
}

}  // namespace

Order first_order(const Units& units) {
  return Kahn(units.before).run([](int unit, int) { return unit; });
}

std::vector<Order> topological_orders(const Units& units) {
  const Graph& graph = units.before;
  std::vector<Order> orders;
  const auto add = [&](Order order) {
    if (std::find(orders.begin(), orders.end(), order) == orders.end())
      orders.push_back(std::move(order));
  };
  add(first_order(units));

  Order depth_first;  // Boost.Graph gives the last first
  boost::topological_sort(graph, std::back_inserter(depth_first));
  std::reverse(depth_first.begin(), depth_first.end());
  add(std::move(depth_first));

  Order from_the_end;
  const auto reversed = boost::make_reverse_graph(graph);
  boost::topological_sort(reversed, std::back_inserter(from_the_end),
                          boost::vertex_index_map(boost::get(boost::vertex_index, graph)));
  add(std::move(from_the_end));

  add(Kahn(graph).run([](int, int turn) { return turn; }));
  add(Kahn(graph).run([](int, int turn) { return -turn; }));
  const std::vector<int> distance = distances_to_end(graph, orders.front());
  add(Kahn(graph).run([&](int unit, int) { return -distance[at(unit)]; }));
  add(least_alive(units));
  return orders;
}

}  // namespace kerf::partitioner
