// The layer cut where workers are not all alike, or a person has a say in it: operators that have
// their worker, that stay together or apart, and several stages on a worker.
//
//   place  enc* 0, dec* 1, enc_out 0     order    enc1 enc2 | dec1 | enc_out | dec2 dec3
//                                        stages   0           1      2         3
//                                        worker   0           1      0         1
//
// Which worker each stage is on comes first: as placed operators follow each other in an order of
// the units that changes workers as seldom as it can, workers without any in between; else in turn,
// or in each order of the workers that differ. Each such row of workers is a search of its own
// (cuts/layer_search.h) for stages in that order, under what the rules say of their units; the row
// of the least bottleneck wins, then the one of fewest bytes. Where operators that are to be apart
// meet in two stages of a worker, rows are searched anew for each way that workers may have them;
// where no row has a division, other orders are tried. Borrows the task; used by one thread.
#pragma once

#include <optional>

#include "partitioner/bound.h"
#include "partitioner/cut.h"
#include "partitioner/units.h"

namespace kerf::partitioner {

// Whether the request says anything of this.
bool steers_layers(const PlanRequest& request);

// Empty if nothing is within the caps of memory. Throws Error{kUsage} at the flag where patterns
// fit nothing or contradict each other, Error{kInfeasible} where there are too few operators.
std::optional<Assignment> cut_steered_layers(const CutTask& task);

// What no worker can be below, however many stages it has: all work at all speeds together, or the
// heaviest unit at the best one.
Bound bound_of_loads(const Model& model, const PlanRequest& request, const CostGraph& graph,
                     const Units& units);

}  // namespace kerf::partitioner
