// Rows that are found by playing them out in time, under a limit of memory: whoever is free does at
// once what is next of what it may do, forward and back in turn, and of each the earliest
// micro-batch first.
#pragma once

#include <vector>

#include "schedmp/schedules/distinct_groups.h"

namespace kerf::schedmp {

// By group. Each keeps at most `kept` micro-batches, of all its chunks together, and no two take
// each other's last place: a forward leaves one for each later chunk. Where that stands still, as a
// stage that waits for less than those before it may run far ahead of them, they are 1, 3, 7, ...
// more, the first that go on.
std::vector<std::vector<Action>> played_rows(int kept, const Pipeline& pipeline,
                                             const DistinctGroups& groups, int micro_batches,
                                             const ActionCosts& costs);

}  // namespace kerf::schedmp
