// Random cost graphs: small DAGs with branches, skips and, if asked for, colours and a backward
// half. Every other one has fractions: eighths, which doubles add exactly.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "partitioner/cost_graph.h"

namespace kerf::partitioner::testing {

struct GraphKinds {
  int nodes = 8;
  bool leaving = false;   // what leaves a stage costs it time, too
  bool backward = false;  // each node has a backward twin of its colour
  bool colours = false;   // some nodes share one
  bool memory = false;
  bool returns = false;  // gradients come back, in an order that need not be that of the nodes
  bool shared = false;   // some memory is held by several nodes together
  bool close = false;    // some pairs are better together
  bool loose = false;    // with `backward`: its nodes have edges of their own, and no colours
  bool hosts = false;    // there is a second type of device, good at some nodes
};

inline std::vector<GraphKinds> all_kinds(int nodes) {
  std::vector<GraphKinds> result;
  for (const bool leaving : {false, true})
    for (const bool backward : {false, true})
      for (const bool colours : {false, true})
        result.push_back({nodes, leaving, backward, colours, true});
  return result;
}

inline CostGraph random_graph(std::mt19937& random, const GraphKinds& kinds) {
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  const double unit = draw(0, 1) == 0 ? 1 : 0.125;
  const auto amount = [&](int least, int most) {
    return unit * draw(static_cast<int>(least / unit), static_cast<int>(most / unit));
  };
  CostFigures figures;
  figures.name = "random";
  figures.work.resize(1);
  std::vector<std::vector<int>> readers(static_cast<size_t>(kinds.nodes));
  for (int node = 0; node < kinds.nodes; ++node) {
    figures.nodes.push_back({"n" + std::to_string(node), -1, false});
    figures.work[0].push_back({amount(1, 9), 0});
    if ((kinds.backward && !kinds.loose) || (kinds.colours && draw(0, 3) == 0))
      figures.nodes.back().colour = kinds.colours ? draw(0, kinds.nodes / 2) : node;
    for (int from = 0; from < node; ++from)
      if (draw(0, 2) == 0) readers[static_cast<size_t>(from)].push_back(node);
  }
  const auto add_value = [&](int producer, std::vector<int> by) {
    if (by.empty()) return;
    const double time = amount(0, 4);
    const double bytes = amount(1, 9);
    figures.values.push_back(
        {producer, std::move(by), bytes, bytes, time, kinds.leaving ? time : 0});
    if (!kinds.returns || draw(0, 3) == 0) return;
    CostValue& value = figures.values.back();
    if (kinds.leaving) value.leave = amount(0, 4);
    value.returned_bytes = bytes;
    value.bytes += bytes;
    value.returning = amount(0, 4);
    value.enter += value.returning;
    value.returns = value.readers;
    for (int again = draw(0, 2); again > 0; --again)
      value.returns.push_back(
          value.readers[static_cast<size_t>(draw(0, static_cast<int>(value.readers.size()) - 1))]);
    std::shuffle(value.returns.begin(), value.returns.end(), random);
  };
  for (int node = 0; node < kinds.nodes; ++node)
    add_value(node, readers[static_cast<size_t>(node)]);
  if (kinds.backward) {
    const int n = kinds.nodes;  // the twin of v is n + n - 1 - v: twins run the other way
    std::vector<std::vector<int>> back(static_cast<size_t>(n));
    for (int node = n - 1; node >= 0; --node) {
      figures.nodes.push_back(
          {"g" + std::to_string(node), figures.nodes[static_cast<size_t>(node)].colour, true});
      figures.work[0].push_back({0, amount(1, 9)});
      for (const int reader : readers[static_cast<size_t>(node)])
        if (!kinds.loose) back[static_cast<size_t>(n - 1 - reader)].push_back(2 * n - 1 - node);
    }
    for (int twin = 0; kinds.loose && twin < n; ++twin)
      for (int later = twin + 1; later < n; ++later)
        if (draw(0, 2) == 0) back[static_cast<size_t>(twin)].push_back(n + later);
    for (int twin = 0; twin < n; ++twin) add_value(n + twin, back[static_cast<size_t>(twin)]);
  }
  if (kinds.memory)
    for (int node = 0; node < static_cast<int>(figures.nodes.size()); ++node)
      figures.held.push_back({{node}, amount(1, 20), 0});
  if (kinds.shared)
    for (int node = 2; node < kinds.nodes; node += 2)
      figures.held.push_back({{node - 2, node}, amount(1, 20), amount(0, 5)});
  if (kinds.close) figures.close.emplace_back(kinds.nodes - 2, kinds.nodes - 1);
  if (kinds.hosts) {
    figures.work.push_back(figures.work[0]);
    for (Work& work : figures.work[1]) work.forward *= draw(0, 2) == 0 ? 0.5 : 3;
  }
  return CostGraph(std::move(figures));
}

// Layers of nodes that read some of the layer before.
inline CostGraph large_graph(std::mt19937& random, int nodes) {
  CostFigures figures;
  figures.name = "large";
  figures.work.resize(1);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  figures.values.resize(static_cast<size_t>(nodes));
  for (int node = 0; node < nodes; ++node) {
    figures.nodes.push_back({std::to_string(node), -1, false});
    figures.work[0].push_back({1.0 * draw(0, 9), 0});
    figures.held.push_back({{node}, 1.0 * draw(0, 9), 0});
    CostValue& value = figures.values[static_cast<size_t>(node)];
    value.producer = node;
    value.bytes = value.forward_bytes = draw(1, 9);
    for (int reader = node + 1; reader <= std::min(node + 6, nodes - 1); ++reader)
      if (draw(0, 2) == 0) value.readers.push_back(reader);
  }
  std::erase_if(figures.values, [](const CostValue& value) { return value.readers.empty(); });
  return CostGraph(std::move(figures));
}

// Nodes one after the other, each of which holds as many bytes as it has work.
inline CostGraph chain_of(const std::vector<double>& work, double enter = 0) {
  CostFigures figures;
  figures.name = "chain";
  figures.work.resize(1);
  for (size_t node = 0; node < work.size(); ++node) {
    figures.nodes.push_back({std::to_string(node), -1, false});
    figures.work[0].push_back({work[node], 0});
    figures.held.push_back({{static_cast<int>(node)}, work[node], 0});
    if (node > 0)
      figures.values.push_back(
          {static_cast<int>(node) - 1, {static_cast<int>(node)}, 1, 1, enter, 0});
  }
  return CostGraph(std::move(figures));
}

}  // namespace kerf::partitioner::testing
