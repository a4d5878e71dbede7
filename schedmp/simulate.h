// Simulation: a step unfolded in time, before anything runs.
//
//   worker 0  0F0 0F1 ....... 0B0 0B1 0U      . idle: it waits for what another has yet to send
//   worker 1      1F0 1F1 1B0 1B1 .. 1U
//
// The rows run on the lowered parts, by the interpreter that a run uses and verify.h walks. What
// computes takes the time that the plan was priced by (cost.h), over the worker's speed: forward,
// input gradients and weight gradients apart, by the rows of each micro-batch. So does what is
// packed, unpacked, added up and put together (copies.h). A message leaves when it is packed, goes
// over the link of its two workers after those before it to the same one (links.h), while both ends
// compute on; within a worker that takes no time. The update is not priced, and nobody waits for a
// free slot: a run may take longer. Of an endless schedule whose steps go on (steps.h) it is a step
// between others, once the pipeline is full. Pure functions.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "partitioner/objective.h"
#include "partitioner/part.h"
#include "schedmp/idle_share.h"
#include "schedmp/schedule.h"

namespace kerf::schedmp {

// A list of an action, from when it first computes or copies to its end: seconds since the step's
// start.
struct Moment {
  Action action;
  double begin = 0;
  double end = 0;
  double busy = 0;  // what of that computes or copies; the rest waits for messages
};

// A message, from a list of a worker to one of its own or another's: lists by their place in the
// worker's row.
struct TimedMessage {
  int from = 0;  // worker
  int to = 0;
  size_t sent_in = 0;
  size_t taken_in = 0;
  double sent = 0;
  double arrived = 0;
  double taken = 0;  // no earlier
  // For how long the list that took it, having begun, stood still for it.
  double waited = 0;
};

struct Timeline {
  std::vector<std::vector<Moment>> rows;  // by worker
  std::vector<double> busy;               // by worker: seconds of computing
  std::vector<double> copying;            // by worker
  // Until the last worker is done; of steps that go on, from the end of one to that of the next.
  double step_seconds = 0;
  std::vector<TimedMessage> messages;

  // The part of the step in which a worker neither computes nor copies: its bubble, in [0, 1].
  double idle(int worker) const {
    const auto index = static_cast<size_t>(worker);
    return idle_share(busy[index] + copying[index], step_seconds);
  }
};

// `parts` are those of `plan`, which the schedule fits (check_order, check_fits). Empty where the
// workers wait for each other for ever. O(instructions).
std::optional<Timeline> simulate(const partitioner::Model& model, const partitioner::Plan& plan,
                                 const std::vector<partitioner::Part>& parts,
                                 const Schedule& schedule, const partitioner::DeviceSpeed& speed);

using ScheduleOf = std::function<Schedule(const partitioner::Model&, const partitioner::Plan&)>;
// The simulated step, under the schedule that `schedule_of` has for a plan.
std::unique_ptr<partitioner::Objective> simulated_step(ScheduleOf schedule_of);

}  // namespace kerf::schedmp
