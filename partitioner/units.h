// Units: what a layer cut moves as a whole. Nodes of one colour, and whatever lies on a cycle once
// those are one, become one unit; what remains is acyclic.
//
// Where a graph has backward nodes of their own, the backward half runs from the last stage to the
// first: its edges count reversed, and edges between the halves order nothing. (Some files write
// the backward half along the forward one; then it counts so.) Either way every division of a
// topological order of the units into segments leaves both halves' graphs of stages acyclic.
//
//   forward    a ──> b ──> c        units  {a a'} ──> {b b'} ──> {c c'}
//   backward   a' <── b' <── c'
//
// Plain values and a pure function.
#pragma once

#include <utility>
#include <vector>

#include "partitioner/cost_graph.h"

namespace kerf::partitioner {

struct UnitValue {
  int producer = -1;
  std::vector<int> readers;  // other units, ascending; never empty
  double bytes = 0;
  double enter = 0;
  double leave = 0;
  double returned_bytes = 0;
  double returning = 0;
  std::vector<int> returns = {};  // units other than the producer, in order, with repetitions
};

struct UnitHeld {
  std::vector<int> units;  // ascending
  double fixed = 0;
  double per_micro_batch = 0;
};

struct Units {
  int size() const { return static_cast<int>(members.size()); }

  std::vector<std::vector<int>> members;  // unit -> nodes, ascending; units by their first node
  std::vector<int> unit_of;               // by node
  std::vector<std::vector<double>> work;  // [device type][unit], both halves
  std::vector<UnitValue> values;
  std::vector<UnitHeld> held;
  Edges close;
  boost::compressed_sparse_row_graph<boost::bidirectionalS> before;  // u -> v: u must come first
};

Units units_of(const CostGraph& graph);

}  // namespace kerf::partitioner
