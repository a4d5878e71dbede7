// Homes: where the parameters live.
//
// A parameter is a value with a layout. Its *home* boxes are where its master and the optimizer's
// state are: gradients are summed into homes, U updates them and publishes to the *read copies* of
// the parts whose calls need more than their home holds. Where one part alone needs a box, or
// several whose every contribution to its gradient all of them compute (replicas), home and copy
// coincide and nothing travels. Where parts have partial sums of one box (batch division, uses of a
// tied weight on several parts), it is divided evenly over them, so that a reduction among R parts
// and what it publishes cost each at most 2 (R - 1) / R of the box, but for rounding (a
// reduce-scatter and an all-gather: Rabenseifner 2004; Rajbhandari et al. 2020 for the homes).
//
// Pure functions; no threads.
#pragma once

#include <vector>

#include "ops/layout.h"

namespace kerf::partitioner {

// What one part reads of a parameter, and which summands of its gradient it can compute: numbers in
// an order common to all parts.
struct Reader {
  int part = 0;
  ops::Box need;
  std::vector<int> summands;
};

// The axis along which a box is longest, but not `except`; -1 if there is none.
int longest_axis(const ops::Box& box, const ops::Shape& shape, int except = -1);
// The box in as many parts along that axis; the last may be empty. `shape` is concrete.
std::vector<ops::Box> divide_evenly(const ops::Box& box, const ops::Shape& shape, int axis,
                                    int parts);

// One share per part at most. `summands`: the box of each summand, which may overlap. Readers in
// ascending order of parts; `shape` is concrete. Without summands (nothing to train) every reader
// is a home of what it reads: these alone may overlap.
ops::Layout find_homes(const std::vector<Reader>& readers, const std::vector<ops::Box>& summands,
                       const ops::Shape& shape);

}  // namespace kerf::partitioner
