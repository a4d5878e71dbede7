// A schedule under a cap of micro-batches in flight. Pure function.
#pragma once

#include "schedmp/schedules.h"

namespace kerf::schedmp {

// The schedule whose workers keep `most` micro-batches at most, of all their stages together
// (kept.h). ZB-H1 and ZB-H2 are made for so many. Of all others forwards wait for a place; what
// stands in their way goes first: a gradient of weights whose input gradient is done, at once; else
// what the row has next. All else keeps its order.
//
//   1f1b, 2 at most   0F0 0F1 0F2     0B0 ...    becomes    0F0 0F1     0B0 0F2 ...
//
// Throws Error{kUsage} where the rows would then wait for ever, which names the worker, and where
// the schedule is endless. O(actions, logarithmically).
Schedule capped(const Schedule& schedule, const Pipeline& pipeline, int most);

}  // namespace kerf::schedmp
