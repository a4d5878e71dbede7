// The rounds of a training, one after another: the steps of an epoch, its evaluation, ..., saving.
// The scheduler's own.
#pragma once

#include <limits>
#include <optional>

#include "schedmp/training/messages.h"
#include "schedmp/training/training.h"

namespace kerf::schedmp {

class Rounds {
 public:
  // `options` outlives this. A pipeline that goes on drains behind every so many steps; 0: only
  // where there is no next step.
  Rounds(const TrainingOptions& options, int64_t train_rows, int64_t test_rows,
         int64_t drain_period = 0);

  int64_t total_steps() const { return total_; }
  int64_t begun_steps() const { return step_; }
  int64_t drain_period() const { return drain_period_; }

  // What comes next hangs on the evaluation that was scheduled last: until judge() was told of it,
  // next() must not be asked.
  bool waits() const { return waits_; }
  // The loss of that evaluation; says whether it is the lowest so far, whose weights are kept.
  bool judge(double loss);
  bool has_best() const { return lowest_ < std::numeric_limits<double>::infinity(); }
  // The next round saves the weights of that evaluation.
  bool keeps_next() const { return keeps_; }
  // Which training rows a step has, in the order of their epoch.
  TaskRows rows_of_step(int64_t step) const;

  // Empty: the run is over. The task says which rows are next, and what is at its ends: between a
  // step and the next nothing drains.
  std::optional<TrainingTask> next();

  // For snapshots: where it is, as archives want it (schedmp/state.h). Not that the last weights
  // were saved: those go with the run, and who goes on saves its own.
  template <class Archive>
  void state(Archive& archive) {
    archive(sequence_, step_, epoch_, first_, test_first_, under_way_, evaluating_, evaluated_,
            waits_, keeps_, lowest_, in_vain_);
  }
  // Behind that, of one whose last round was folded in. Throws Error{kProtocol} where it is at a
  // place that no run of these options gets to.
  void check_restored();
  bool goes_on() const { return under_way_; }
  // Rows of the tests, of an evaluation that is not over; or 0.
  int64_t evaluated_rows() const { return evaluating_ ? test_first_ : 0; }

 private:
  // Of the task that next() will give, if that is certain.
  TaskRows rows_behind() const;
  std::optional<TrainingTask> next_round();
  std::optional<TrainingTask> next_step();
  std::optional<TrainingTask> next_evaluation();
  std::optional<TrainingTask> next_save();
  void begin_evaluation();
  TrainingTask save() const;

  const TrainingOptions* options_;  // Rounds are copied to look ahead
  int64_t train_rows_;
  int64_t test_rows_;
  int64_t batch_;  // rows of a step, of all replicas
  int64_t steps_per_epoch_;
  int64_t total_ = 0;
  int64_t drain_period_;
  int64_t sequence_ = 0;
  int64_t step_ = 0;
  int64_t first_step_ = 0;  // that it does, where it goes on from a snapshot
  int64_t epoch_ = 0;
  int64_t first_ = 0;
  int64_t test_first_ = 0;
  bool under_way_ = false;  // of a pipeline that goes on: at the end of the last task
  bool evaluating_ = false;
  bool evaluated_ = false;
  bool saved_ = false;
  // Where patience ends a run:
  bool waits_ = false;
  bool keeps_ = false;  // the next round saves
  double lowest_ = std::numeric_limits<double>::infinity();
  int in_vain_ = 0;  // evaluations in a row
};

}  // namespace kerf::schedmp
