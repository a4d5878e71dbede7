// Every division of a small graph into stages: what a layer cut chooses from, found without any
// order or search.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "partitioner/cost_graph.h"
#include "partitioner/model.h"

namespace kerf::partitioner::testing {

// What a division must respect: pairs of nodes of which the first is in the second's stage or in an
// earlier one, and pairs that share a stage.
struct Partings {
  int nodes = 0;
  Edges before = {};
  Edges together = {};
};

// A value goes to its readers' stage or a later one; backward values go the other way.
inline Partings partings_of(const CostGraph& graph) {
  Partings partings{graph.size()};
  for (const CostValue& value : graph.values())
    for (const int reader : value.readers) {
      if (graph.node(value.producer).backward != graph.node(reader).backward) continue;
      if (graph.node(reader).backward)
        partings.before.emplace_back(reader, value.producer);
      else
        partings.before.emplace_back(value.producer, reader);
    }
  for (int a = 0; a < graph.size(); ++a)
    for (int b = 0; b < a; ++b)
      if (graph.node(a).colour >= 0 && graph.node(a).colour == graph.node(b).colour)
        partings.together.emplace_back(a, b);
  return partings;
}

// Those who use one parameter stay together.
inline Partings partings_of(const Model& model) {
  Partings partings{model.nodes()};
  for (ValueId value = 0; value < model.values(); ++value)
    for (const Use& use : model.uses(value)) {
      if (model.value(value).producer >= 0)
        partings.before.emplace_back(model.value(value).producer, use.node);
      else if (ops::is_kept(model.value(value).role))
        partings.together.emplace_back(model.uses(value)[0].node, use.node);
    }
  return partings;
}

// stage of each node, for every division into `stages` stages, none of them empty; of more than
// `most` of them the first ones.
inline std::vector<std::vector<int>> every_division(const Partings& partings, int stages,
                                                    size_t most) {
  std::vector<std::vector<int>> found;
  std::vector<int> stage_of(static_cast<size_t>(partings.nodes), -1);
  const auto stage = [&](int node) -> int& { return stage_of[static_cast<size_t>(node)]; };
  const auto allowed = [&](const std::pair<int, int>& pair, bool equal) {
    const int a = stage(pair.first);
    const int b = stage(pair.second);
    return a < 0 || b < 0 || a == b || (!equal && a < b);
  };
  const std::function<void(int)> place = [&](int node) {
    if (node == partings.nodes) {
      for (int s = 0; s < stages; ++s)
        if (std::find(stage_of.begin(), stage_of.end(), s) == stage_of.end()) return;
      found.push_back(stage_of);
      return;
    }
    for (int s = 0; s < stages && found.size() < most; ++s) {
      stage(node) = s;
      const bool fits = std::all_of(partings.before.begin(), partings.before.end(),
                                    [&](const auto& pair) { return allowed(pair, false); }) &&
                        std::all_of(partings.together.begin(), partings.together.end(),
                                    [&](const auto& pair) { return allowed(pair, true); });
      if (fits) place(node + 1);
    }
    stage(node) = -1;
  };
  place(0);
  return found;
}

// What a heuristic finds, beside what there is.
struct Tally {
  int plans = 0;
  int best = 0;      // of them: none is better
  double worst = 1;  // bottleneck over the best one's
  int refusals = 0;
  int mistaken = 0;  // of them: something fits
  double most = 1;   // memory that it advises over the least that something fits into

  void add_plan(double bottleneck, double best_bottleneck) {
    ++plans;
    if (bottleneck <= best_bottleneck * (1 + 1e-9)) ++best;
    worst = std::max(worst, bottleneck / best_bottleneck);
  }
  void add_refusal(double cap, double advised, double least) {
    ++refusals;
    if (least <= cap) ++mistaken;
    most = std::max(most, advised / least);
  }
};

struct Tallies {
  Tally free, capped;  // without a cap on memory, and under one
};

// stage -> its nodes, ascending.
inline std::vector<std::vector<int>> nodes_of_stages(const std::vector<int>& stage_of, int stages) {
  std::vector<std::vector<int>> nodes(static_cast<size_t>(stages));
  for (size_t node = 0; node < stage_of.size(); ++node)
    nodes[static_cast<size_t>(stage_of[node])].push_back(static_cast<int>(node));
  return nodes;
}

}  // namespace kerf::partitioner::testing
