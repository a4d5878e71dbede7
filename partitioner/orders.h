// Topological orders of a model's nodes: the candidates that the layer cut divides into segments.
#pragma once

#include <vector>

#include "partitioner/model.h"

namespace kerf::partitioner {

// Distinct topological orders, the model order first: depth first forwards and backwards
// (Boost.Graph), Kahn's algorithm breadth first, depth first, by distance from the end and by least
// bytes alive. At least one, at most seven.
std::vector<std::vector<NodeId>> topological_orders(const Model& model);

// Whether the edges, pairs of numbers below `vertices`, form no cycle.
bool is_acyclic(int vertices, const std::vector<std::pair<int, int>>& edges);

}  // namespace kerf::partitioner
