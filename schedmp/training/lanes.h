// Which lane of which channel carries a route: the routes from one worker to another, in order of
// their numbers. What a worker sends to itself needs no channel (mailbox.h). The scheduler (which
// sizes the lanes) and the workers (which use them) both ask here.
#pragma once

#include <vector>

#include "partitioner/plan.h"
#include "schedmp/program.h"
#include "schedmp/verify.h"

namespace kerf::schedmp {

// route -> lane.
std::vector<int> lanes_of_routes(const partitioner::Plan& plan);
// Slots of each route: what its ends hold at most, and `slots` more.
std::vector<int32_t> credits_of(const Verdict& verdict, int slots);
LaneTable size_lanes(const partitioner::Model& model, const partitioner::Plan& plan,
                     const std::vector<int32_t>& credits);

}  // namespace kerf::schedmp
