// The built-in schedules: pure functions from a pipeline of stages and micro-batches to a Schedule.
//
//   forward_only  F of every micro-batch: evaluation
//   gpipe         all F, then all B, ascending by micro-batch (Huang et al. 2018, arXiv:1811.06965)
//   1f1b          warm-up, then one F one B (PipeDream-Flush, Narayanan et al. 2020,
//                 arXiv:2006.09503); the warm-up is by the longest path to an end of the graph of
//                 stages, of a chain by all that come later
#pragma once

#include <string>
#include <vector>

#include "partitioner/in_flight.h"
#include "partitioner/stage_graph.h"
#include "schedmp/schedule.h"

namespace kerf::schedmp {

using partitioner::chain_of;
using partitioner::Pipeline;

// One more than the largest worker number. Throws Error{kUsage} unless every worker from 0 on has a
// stage and no stage is empty.
int count_workers(const std::vector<std::vector<int>>& groups);

// micro_batches >= 1. O(actions), and 1F1B O((stages + edges) (stages + micro_batches)) where each
// worker has one stage.
Schedule forward_only(const Pipeline& pipeline, int micro_batches);
Schedule gpipe(const Pipeline& pipeline, int micro_batches);
Schedule one_f_one_b(const Pipeline& pipeline, int micro_batches);

std::vector<std::string> schedule_names();  // those below
// Throws Error{kUsage} that lists the names.
Schedule make_schedule(const std::string& name, const Pipeline& pipeline, int micro_batches);
// For as many micro-batches as the plan has.
Schedule make_schedule(const std::string& name, const partitioner::Model& model,
                       const partitioner::Plan& plan);

// Micro-batches in flight per stage under a named schedule, for the planner.
std::unique_ptr<partitioner::InFlight> in_flight_of(const std::string& schedule);
// The same, counted in the rows of any schedule.
std::unique_ptr<partitioner::InFlight> in_flight_of(const Schedule& schedule);

}  // namespace kerf::schedmp
