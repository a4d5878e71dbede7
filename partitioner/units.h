// Units: what a layer cut moves as a whole. Nodes of one colour, and whatever lies on a cycle once
// those are one, become one unit; what remains is acyclic.
//
// Where a graph has backward nodes of their own, the backward half mostly runs from the last stage
// to the first: its edges count reversed, and edges between the halves order nothing. It may also
// run along the forward one; then it counts so. Either way every division of a topological order of
// the units into segments leaves both halves' graphs of stages acyclic. Where it is free, the
// forward half alone orders: all divisions are among these, and some whose backward half has a
// cycle.
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

// Uses of a value by one unit that stand one behind the other in the order of their sum.
struct UnitTurn {
  int unit = 0;
  int uses = 1;
};

struct UnitValue {
  int producer = -1;
  std::vector<int> readers;  // other units, ascending; never empty
  double bytes = 0;
  double enter = 0;
  double leave = 0;
  double returned_bytes = 0;
  double returning = 0;
  // Units whose turn it is in the sum of the gradient, the producer's included, in order: none
  // twice in a row, and some several times.
  std::vector<UnitTurn> returns = {};
};

struct UnitHeld {
  std::vector<int> units;  // ascending
  double fixed = 0;
  double per_micro_batch = 0;
};

void append_turn(std::vector<UnitTurn>& returns, UnitTurn turn);

// Collects what units hold. All that one unit holds alone is one entry, so that there are no more
// of these than units; the others come first, as they were added.
class HeldByUnits {
 public:
  explicit HeldByUnits(int units)
      : fixed_(static_cast<size_t>(units)), per_micro_batch_(static_cast<size_t>(units)) {}
  // `units`: in any order, with repetitions.
  void add(std::vector<int> units, double fixed, double per_micro_batch);
  std::vector<UnitHeld> take();

 private:
  std::vector<UnitHeld> shared_;
  std::vector<double> fixed_, per_micro_batch_;  // of one unit alone
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

enum class BackwardWay : uint8_t { kReversed, kAlong, kFree };
Units units_of(const CostGraph& graph, BackwardWay way);
// The ways that the backward half may run, the one that leaves more to part first; one, if there is
// no backward half.
std::vector<Units> ways_of(const CostGraph& graph);
// The first of them.
Units units_of(const CostGraph& graph);

}  // namespace kerf::partitioner
