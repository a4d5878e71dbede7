// Where the idle time of a schedule goes, and how long its step may take where actions take longer
// than they should. Pure functions.
#pragma once

#include "schedmp/unfold.h"

namespace kerf::schedmp {

// Of a worker, or of all, in the unit of the costs. All together: the time until the last action of
// a micro-batch ends, or a period of a step that goes on, less what the worker computes.
struct Idle {
  double fill = 0;           // before its first action
  double dependency = 0;     // for what others have yet to compute
  double communication = 0;  // for what is under way
  // Of the waits for others what no order could mend: this worker has less to compute than the
  // busiest.
  double imbalance = 0;
  double drain = 0;  // after its last action

  double total() const { return fill + dependency + communication + imbalance + drain; }
};

// By worker. `unfolded` is of this schedule, graph and costs, and reached every row's end.
std::vector<Idle> idle_of(const Schedule& schedule, const partitioner::StageGraph& graph,
                          const Unfolded& unfolded);
// Of a step of so many micro-batches that goes on (steps.h): rows like these follow each other once
// in a period, which is as long as the longest of them. Nobody fills or drains.
std::vector<Idle> idle_of_period(const Schedule& schedule, int micro_batches,
                                 const partitioner::StageGraph& graph, const Unfolded& unfolded);

// The makespan that 95 of 100 steps do not exceed, of so many that are drawn by costs.jitter.
double makespan_of_95(const Schedule& schedule, const partitioner::StageGraph& graph,
                      ActionCosts costs, int steps = 100);

}  // namespace kerf::schedmp
