// What a training was given back of a snapshot, before anything is made of it: sums say that it was
// written so, not that a run of these options wrote it.
#include "runtime/error.h"
#include "schedmp/training/training_state.h"

namespace kerf::schedmp {

void Training::State::check_restored() {
  const auto expect = [](bool fine, const char* what) {
    if (!fine) throw Error(ErrorCode::kProtocol, what);
  };
  rounds.check_restored();
  expect(!schedule.endless() || !rounds.goes_on(), "a step of it is under way");
  expect(std::ssize(steps) == rounds.begun_steps(), "it has records of other steps than it made");
  for (int64_t i = 0; i < std::ssize(steps); ++i) {
    const StepRecord& step = steps[static_cast<size_t>(i)];
    const TaskRows own = rounds.rows_of_step(i);
    expect(step.step == i && step.epoch == own.epoch && step.rows == own.rows,
           "a record of it is of no step of this run");
  }
  for (const EvaluationRecord& each : evaluations)
    expect(each.rows > 0 && each.rows <= rows_of(test) && each.labels_per_row == labels_per_row(),
           "an evaluation of it is of no tests of this run");
  const int64_t evaluated = rounds.evaluated_rows();
  expect(evaluated == 0 || (!evaluations.empty() && evaluations.back().rows == evaluated),
         "it is within an evaluation that has no record");
}

}  // namespace kerf::schedmp
