// The staircase: a schedule unfolded in time (unfold.h) and drawn, and how idle it leaves the
// workers. For people: simulate.h has the times of a plan. Pure functions.
#pragma once

#include <string>

#include "schedmp/unfold.h"

namespace kerf::schedmp {

// One row per worker; the shortest action is as wide as the longest text, others by their times.
// Rows that wait for ever end there.
std::string draw_staircase(const Schedule& schedule, const Unfolded& unfolded);
// How wide that would be, about.
double staircase_columns(const Schedule& schedule, const Unfolded& unfolded);
std::string draw_staircase(const Schedule& schedule, const partitioner::StageGraph& graph,
                           const ActionCosts& costs = {});

// Both definitions that papers use, as fractions; docs/schedules.md explains them.
struct Bubble {
  double makespan = 0;  // until the last action of a micro-batch ends, in the unit of the costs
  double step = 0;      // of all workers' time until then: what they are idle
  double span = 0;      // 1 - the most work of a worker / the longest time from a first action to
                        // a last one
};
Bubble bubble(const Schedule& schedule, const Unfolded& unfolded);
Bubble bubble(const Schedule& schedule, const partitioner::StageGraph& graph,
              const ActionCosts& costs = {});

}  // namespace kerf::schedmp
