// Index sets of features, in whole units: who gets which of them.
//
//   even                0-2   3-5   6-7   8-9             of 10 units over 4 workers
//   block-cyclic:2      0-1,8-9   2-3   4-5   6-7
//   proportional        0   1-3   4-9                     to 1:2:4
//
// Pure functions.
#pragma once

#include <span>
#include <vector>

#include "partitioner/cut.h"

namespace kerf::partitioner {

// By worker; blocks of `block` units in turn.
std::vector<ops::IndexSet> block_cyclic_sets(int64_t units, int workers, int64_t block);
// Consecutive; nobody is a unit or more away from what its weight is of all of them.
std::vector<ops::IndexSet> proportional_sets(int64_t units, const std::vector<double>& weights);

// Of a group of parts, in proportion to their speeds; evenly where none are given, or all of the
// group are alike.
std::vector<ops::IndexSet> shares_of(int64_t units, std::span<const int> parts,
                                     const std::vector<double>& speeds);

}  // namespace kerf::partitioner
