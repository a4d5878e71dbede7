// Index sets of features, in whole units: who gets which of them.
//
//   even                0-2   3-5   6-7   8-9             of 10 units over 4 workers
//   block-cyclic:2      0-1,8-9   2-3   4-5   6-7
//   proportional        0   1-3   4-9                     to 1:2:4
//
// Pure functions.
#pragma once

#include <functional>
#include <vector>

#include "partitioner/cut.h"

namespace kerf::partitioner {

// By worker; blocks of `block` units in turn.
std::vector<ops::IndexSet> block_cyclic_sets(int64_t units, int workers, int64_t block);
// Consecutive; nobody is a unit or more away from what its weight is of all of them.
std::vector<ops::IndexSet> proportional_sets(int64_t units, const std::vector<double>& weights);

// By worker.
std::vector<double> speeds_of(const PlanRequest& request);

// The axis of features that a node can be divided along, but for losses; -1 if there is none.
int divisible_features(const Model& model, NodeId node);
// That axis over the parts, sets[i] of its units to parts[i]. Throws Error{kUsage} that names the
// node where a call computes no such set.
ops::Layout divided_features(const Model& model, NodeId node, const std::vector<int>& parts,
                             const std::function<std::vector<ops::IndexSet>(int64_t units)>& sets);

}  // namespace kerf::partitioner
