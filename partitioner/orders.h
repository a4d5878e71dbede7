// Topological orders of units: the candidates that the layer cut divides into segments.
#pragma once

#include <vector>

#include "partitioner/units.h"

namespace kerf::partitioner {

// Distinct topological orders, by number where possible first: depth first forwards and backwards
// (Boost.Graph), Kahn's algorithm breadth first, depth first, by distance from the end and by least
// bytes alive. At least one, at most seven; O((n + E) log n).
std::vector<std::vector<int>> topological_orders(const Units& units);
// The first of them: always the unit of the least number.
std::vector<int> first_order(const Units& units);

}  // namespace kerf::partitioner
