// Pipelines of two replicas that go through the same workers, or groups of them, in opposite ways:
// stage s of the first is on worker s, stage s of the second on worker p - 1 - s. For Chimera and
// DualPipe.
#pragma once

#include <string>
#include <vector>

#include "schedmp/schedules.h"

namespace kerf::schedmp {

// How many groups there are. Throws Error{kUsage} that names the schedule where the pipeline is no
// such one, or their number is odd: the one in the middle had a stage of both ways.
int groups_both_ways(const std::string& schedule, const Pipeline& pipeline);

// By group its row; behind it come the sums of gradients and the updates of its two stages, once
// the other replica's are there.
Schedule with_both_ways(const std::string& name, const Pipeline& pipeline,
                        const std::vector<int>& replica_of,
                        const std::vector<std::vector<Action>>& rows);

}  // namespace kerf::schedmp
