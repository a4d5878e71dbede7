// The built-in schedules: pure functions from a pipeline of stages and micro-batches to a Schedule.
// docs/schedules.md shows each, with its formula, its memory and when to use it; each one's file
// names the paper.
//
//   forward-only  F of every micro-batch, through its replica: evaluation
//   naive         one micro-batch at a time
//   gpipe         all F, then all B, ascending by micro-batch
//   1f1b          warm-up, then one F one B; the warm-up is by the longest path to an end of the
//                 graph of stages, of a chain by all that come later
//   zb-h1, zb-h2  1f1b with I and W apart, W where nothing else is to be done
//   interleaved, looped-bfs                     several stages a worker, in turn
//   zbv, v-half, v-min, dualpipe-v, hanayo      stages that go there and back
//
//   chimera, dualpipe                           two replicas of each stage, in opposite ways
//   pipedream, pipedream-2bw, ampnet            endless: the pipeline never drains
//
// Those that place stages take any graph of them: what can run where each stage waits for the one
// before it can run where it waits for less.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "partitioner/in_flight.h"
#include "partitioner/stage_graph.h"
#include "schedmp/schedule.h"
#include "schedmp/unfold.h"

namespace kerf::schedmp {

using partitioner::chain_of;
using partitioner::Pipeline;

// One more than the largest worker number. Throws Error{kUsage} unless every worker from 0 on has a
// stage and no stage is empty.
int count_workers(const std::vector<std::vector<int>>& groups);

// Where a schedule has its stages, p workers (or groups of them) being numbered as they come.
enum class Placement : uint8_t {
  kAnywhere,
  kInTurn,        // 0 1 2 0 1 2
  kThereAndBack,  // 0 1 2 2 1 0, and so on
  kBothWays,      // 0 1 2 3, and of a second replica 3 2 1 0
};
std::string to_string(Placement placement);  // "in turn (of three workers 0 1 2 0 1 2)"
// Of the stage: the worker, of so many.
int place_of(Placement placement, int stage, int workers);

struct Shape {
  Placement placement = Placement::kAnywhere;
  int chunks = 1;  // stages on each worker, where nobody says another number
  int least_chunks = 1;
  int most_chunks = 1 << 12;
  int multiple = 1;  // of which their number is one
};
std::string chunks_text(const Shape& shape);  // "2 stages", "an even number of stages"
bool allows(const Shape& shape, int chunks);

// micro_batches >= 1. O(actions), and 1F1B O((stages + edges) (stages + micro_batches)) where
// workers have several stages. Costs are of the actions, where what is idle depends on them; those
// that go there and back with I and W apart have their rows fitted to them (fitted_rows.h). Throw
// Error{kUsage} where the pipeline is none of their shape.
Schedule forward_only(const Pipeline& pipeline, int micro_batches);
Schedule naive(const Pipeline& pipeline, int micro_batches);
Schedule gpipe(const Pipeline& pipeline, int micro_batches);
Schedule one_f_one_b(const Pipeline& pipeline, int micro_batches);
Schedule zb_h1(const Pipeline& pipeline, int micro_batches);
Schedule zb_h2(const Pipeline& pipeline, int micro_batches);
Schedule interleaved(const Pipeline& pipeline, int micro_batches);
Schedule looped_bfs(const Pipeline& pipeline, int micro_batches);
Schedule zbv(const Pipeline& pipeline, int micro_batches);
Schedule v_half(const Pipeline& pipeline, int micro_batches);
Schedule v_min(const Pipeline& pipeline, int micro_batches);
Schedule dualpipe_v(const Pipeline& pipeline, int micro_batches);
Schedule chimera(const Pipeline& pipeline, int micro_batches);
Schedule dualpipe(const Pipeline& pipeline, int micro_batches);
Schedule pipedream(const Pipeline& pipeline, int micro_batches);
Schedule pipedream_2bw(const Pipeline& pipeline, int micro_batches);
Schedule ampnet(const Pipeline& pipeline, int micro_batches);
Schedule hanayo(const Pipeline& pipeline, int micro_batches, const ActionCosts& costs = {});

// By name. Those below throw Error{kUsage} that lists the names.
std::vector<std::string> schedule_names();
const Shape& shape_of(const std::string& name);
bool splits_weights(const std::string& name);  // has I and W apart
bool trains(const std::string& name);          // has more than forwards
// How many replicas of each stage it has; whether its periods go on for ever.
int replicas_of(const std::string& name);
bool is_endless(const std::string& name);
// By stage its workers, one each, and again of each replica: `chunks` on each of so many workers
// (0: as the shape has them). Throws where the schedule takes no such number.
std::vector<std::vector<int>> groups_of_shape(const std::string& name, int workers, int chunks);
// A chain of those.
Pipeline chain_of_shape(const std::string& name, int workers, int chunks = 0);
// A pipeline of one replica of each stage has the others where the schedule wants them.
Pipeline with_replicas_of(const std::string& name, Pipeline pipeline);
Schedule make_schedule(const std::string& name, const Pipeline& pipeline, int micro_batches,
                       const ActionCosts& costs = {}, int64_t most_actions = kMostActions);
// For a step of so many micro-batches (step_of): an endless schedule's period has as few of them as
// it may, which are as many as its first stage is ahead, and as go up in the step's. Throws
// Error{kUsage} where that leaves a step of several one update.
Schedule make_step(const std::string& name, const Pipeline& pipeline, int micro_batches);
// For a step of the plan.
Schedule make_schedule(const std::string& name, const partitioner::Model& model,
                       const partitioner::Plan& plan);

// The schedule with a RECOMPUTE before each gradient of inputs, where anything stands between it
// and its forward. Of what has none yet.
Schedule recomputed(const Schedule& schedule);

// Micro-batches in flight under a named schedule, for the planner: counted in its rows for the
// pipeline that is asked about.
std::unique_ptr<partitioner::InFlight> in_flight_of(const std::string& schedule);
// The same, of the rows of any schedule.
std::unique_ptr<partitioner::InFlight> in_flight_of(const Schedule& schedule);

}  // namespace kerf::schedmp
