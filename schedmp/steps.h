// The steps of a run, one behind the other, as a worker's row has them.
//
// Where a schedule ends, so does each step: nothing is under way behind it. The step of an endless
// schedule is its period (step_of), and the pipeline goes on from one to the next: the prologue
// fills it once, and it drains where something else comes next, an evaluation or a snapshot, and
// behind so many steps (drain_period_of).
//
//   step     fills                goes on              drains
//   worker 0 0F0 | 0F1 0B0 0F2 0B1 | 0F1 0B0 0F2 0B1 | 0F1 0B0 0B1     0F2: of the next step, 0F0
//   worker 1     | 1F0 1B0 1F1 1B1 | 1F0 1B0 1F1 1B1 | 1F0 1B0 1F1 1B1
//
// What a step came to is concluded at its end, by the part that all others tell; they hear of it at
// the end of the next, or of their own where that drains, so that nobody waits. Pure values.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/part.h"
#include "schedmp/schedule.h"

namespace kerf::schedmp {

// What is at the ends of a step: where it does not fill, it takes up what the step before began;
// where it does not drain, it begins the next.
struct Ramps {
  bool fills = true;
  bool drains = true;
  bool operator==(const Ramps&) const = default;
};
// What there is of each kind of step.
template <class T>
class ByRamps {
 public:
  T& operator[](const Ramps& ramps) { return all_[number(ramps)]; }
  const T& operator[](const Ramps& ramps) const { return all_[number(ramps)]; }

 private:
  static size_t number(const Ramps& ramps) {
    return (ramps.fills ? 1U : 0U) + (ramps.drains ? 2U : 0U);
  }
  std::array<T, 4> all_{};
};
// Of a step among so many that follow each other.
inline Ramps ramps_among(int step, int steps) { return {step == 0, step + 1 == steps}; }

// Why the steps of an endless schedule cannot follow each other without draining: "a stage is 7
// micro-batches ahead, and a step has 4". Empty: they can, or it ends. `loss`: the stage that has
// it; -1: none is known to.
std::optional<std::string> why_it_drains(const Schedule& schedule, int loss = -1);
// What a run has of it: one that drains as a schedule that ends, any other as it is.
Schedule as_it_runs(const Schedule& schedule, int loss = -1);
// Micro-batches of the next step that a step begins; 0 of a schedule that ends.
int ahead_of(const Schedule& schedule);
// Behind how many steps a run drains where nothing else makes it, so that what workers hold can be
// kept; 0: the schedule ends, and each step drains. To drain and fill again takes no longer than as
// many micro-batches as are ahead, where messages take nothing: a hundredth of the time at most;
// and never less than kLeastDrainPeriod. It follows from the rows alone.
int64_t drain_period_of(const Schedule& schedule);
inline constexpr int64_t kLeastDrainPeriod = 20;
// As many steps as have everything in flight that ever is at once, as a schedule that ends.
Schedule in_full_flight(const Schedule& schedule);

// A run of one list of a worker's parts of a stage: what an action of a row comes to. Where an
// update, or a reduction, of a stage stands, it contributes. The rest of all of a row's updates is
// taken together at its end, where the last of them stands, so that no part of a worker waits for
// what another of its parts has yet to send: all reduce, the root of the step vector concludes, all
// update, all fetch. Nothing of a stage stands behind its update, so that no sum is another for it.
// An update that names a micro-batch waits for nobody: it is taken where it stands, and what is
// left of the stage's lists at the row's end. A forward that the row recomputes keeps what its
// stage was sent alone.
struct ListRun {
  Action action;
  partitioner::InstructionList partitioner::Part::*list = nullptr;
  int step = 0;          // of this step; 1: of the next, -1: of the one before
  int micro_batch = -1;  // of that step; -1: of the step itself
  // Of an update that names a micro-batch: its number among the stage's in the row, and the first
  // micro-batch whose gradients it takes.
  int update = 0;
  int first = 0;
};

class Steps {
 public:
  // Of one as it runs, which outlives this.
  explicit Steps(const Schedule& schedule);
  explicit Steps(Schedule&&) = delete;

  // Whether the pipeline goes on from step to step.
  bool go_on() const { return schedule_->endless(); }
  int micro_batches() const { return schedule_->micro_batches; }
  // Micro-batches that have a number at once: a step's, and those of the next that are ahead.
  int under_way() const { return under_way_; }
  Ramps ramps(int step, int steps) const { return go_on() ? ramps_among(step, steps) : Ramps{}; }
  std::vector<ListRun> runs(int worker, const Ramps& ramps) const;
  // In how many steps all that may happen between them does.
  int proving_steps() const;

 private:
  const Schedule* schedule_;
  int under_way_ = 0;
};

}  // namespace kerf::schedmp
