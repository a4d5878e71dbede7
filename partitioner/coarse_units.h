// Coarser units: units that few would part, as one. A cut of them is a cut of the units that they
// consist of. Pure functions.
#pragma once

#include "partitioner/units.h"

namespace kerf::partitioner {

inline constexpr int kMostFineUnits = 20'000;      // of more, searches join some first,
inline constexpr double kCoarseShare = 1.0 / 400;  // up to so much of a stage

struct CoarseUnits {
  Units units;
  std::vector<int> coarse_of;  // by unit
};

// Joins u and v on an edge u -> v where v follows nothing but u and nothing but v follows u, as
// long as neither work nor memory of what is joined exceeds `most` of the whole (0 to 1), nor the
// number of units four times that. O(n + E).
CoarseUnits join_chains(const Units& units, double most);
// Joins whatever follows (and then, what is followed by) units of one group only. O(n + E).
CoarseUnits join_neighbours(const Units& units, double most);

}  // namespace kerf::partitioner
