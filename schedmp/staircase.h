// The staircase: a schedule unfolded in time, with unit costs (F = I = W = 1, B = 2) and free
// communication, where the stages wait for each other as their graph says. For people: simulate.h
// has the times of a plan. Pure functions; an action of a stage that the graph lacks waits for
// nothing.
#pragma once

#include "partitioner/stage_graph.h"
#include "schedmp/schedule.h"

namespace kerf::schedmp {

// One row per worker, one column per unit of time. Rows that wait for ever end there.
std::string draw_staircase(const Schedule& schedule, const partitioner::StageGraph& graph);
// Who would wait for ever; empty if nobody.
std::vector<std::string> check_waits(const Schedule& schedule,
                                     const partitioner::StageGraph& graph);

// Fractions of worker time spent idle: over the whole step, and over each worker's span from its
// first to its last action (notes on both definitions in docs/schedules.md).
struct Bubble {
  double makespan = 0;
  double span = 0;
};
Bubble bubble(const Schedule& schedule, const partitioner::StageGraph& graph);

}  // namespace kerf::schedmp
