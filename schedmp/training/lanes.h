// Which lane of which channel carries a route: the routes from one worker to another, in order of
// their numbers. The scheduler (which sizes the lanes) and the workers (which use them) both ask
// here.
#pragma once

#include <vector>

#include "partitioner/plan.h"
#include "schedmp/program.h"
#include "schedmp/verify.h"

namespace kerf::schedmp {

// route -> lane.
std::vector<int> lanes_of_routes(const partitioner::Plan& plan);
// Credits: what the receiver holds at most, and `slots` more.
LaneTable size_lanes(const partitioner::Model& model, const partitioner::Plan& plan,
                     const Verdict& verdict, int slots);

}  // namespace kerf::schedmp
