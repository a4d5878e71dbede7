// Operators in model order, divided into as many stages by formulas: where the search of the
// automatic cut (choose_plan.h) begins.
//
//   even        as many operators to each stage
//   bottleneck  the least max(computing of a stage, time on the wire of a boundary): PipeDream's
//               dynamic programming without replicas (Narayanan et al. 2019)
//   latency     the fewest seconds on the wire of stages within a limit, for limits from the least
//               one on: Alpa's over stages of one worker each (Zheng et al. 2022, arXiv:2201.12023)
//
// Pure functions.
#pragma once

#include <vector>

#include "partitioner/cut.h"

namespace kerf::partitioner {

// Seconds of a step.
struct Chain {
  std::vector<double> before;  // by boundary, 0 to nodes: computing of the operators before it
  std::vector<double> wire;    // by boundary: of what crosses it, and of the gradients that return

  int nodes() const { return static_cast<int>(before.size()) - 1; }
  double work(int from, int to) const {
    return before[static_cast<size_t>(to)] - before[static_cast<size_t>(from)];
  }
};
Chain chain_of(const Model& model, const PlanRequest& request);

// Each: of every stage, the end of its operators, exclusive. 1 <= stages <= nodes. No two alike.
// O(limits stages nodes^2); of more than 3,000 nodes boundaries spread evenly over the work are
// looked at.
std::vector<std::vector<int>> first_splits(const Chain& chain, int stages);

}  // namespace kerf::partitioner
