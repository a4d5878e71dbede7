// Steps of a run, one behind the other, unfolded in time by what actions cost.
//
//   worker 0  0F0 0F1 ....... 0B0 0B1 . 0U 0F0 0F1        . it waits: for a message or a free slot
//   worker 1      1F0 1F1 1B0 1B1 ..... 1U     1F0
//
// Where simulate.h prices every operator and unfold.h knows stages alone, this walks the lists of
// the plan's parts as a run does (interpreter.h) and lets each F, I and W take at its first kernel
// what it costs, and the updates of a stage theirs at the first of them. So a gradient leaves a B
// where it leaves it in a run, a step's end waits for what all say of it, and who has no free slot
// waits for one. Steps of an endless schedule go on from one to the next (steps.h). Copying takes
// nothing, and a message between workers what costs say.
#pragma once

#include <cstdint>
#include <vector>

#include "partitioner/part.h"
#include "schedmp/schedule.h"
#include "schedmp/unfold.h"

namespace kerf::schedmp {

struct SimulatedRun {
  std::vector<double> ends;  // by step: when worker 0 is through with it
  double busy = 0;           // of all workers together in the second step, or the only one

  // From the end of the step `first` to that of the last, each.
  double period(size_t first) const {
    return (ends.back() - ends.at(first)) / static_cast<double>(ends.size() - 1 - first);
  }
};

// `parts` are those of `plan`, which the schedule fits and is proved for; `credits`: slots of each
// route (training/lanes.h). By workers' speeds, without jitter. O(instructions x steps). Pure.
SimulatedRun simulate_run(const partitioner::Plan& plan,
                          const std::vector<partitioner::Part>& parts, const Schedule& schedule,
                          const ActionCosts& costs, const std::vector<int32_t>& credits, int steps);

}  // namespace kerf::schedmp
