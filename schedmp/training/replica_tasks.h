// What the scheduler does for several replicas of what it does for one. Worker w of replica r is
// number r times the workers of a replica, and w. Pure functions.
#pragma once

#include "schedmp/program.h"
#include "schedmp/training/messages.h"

namespace kerf::schedmp {

// Its part of the rows, of this task and of the next.
TrainingTask task_of_replica(const TrainingTask& task, int replica, int replicas);
// Channels within each.
LaneTable lanes_of_replicas(const LaneTable& lanes, int replicas);
// Of the crew's, those within one of so many workers.
TransportTable transports_of_replica(const TransportTable& transports, int replica, int workers);

}  // namespace kerf::schedmp
