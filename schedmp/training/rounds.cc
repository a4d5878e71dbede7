#include "schedmp/training/rounds.h"

#include <algorithm>
#include <utility>

#include "runtime/error.h"

namespace kerf::schedmp {

namespace {

constexpr int64_t kMostTasks = int64_t{1} << 60;

}  // namespace

Rounds::Rounds(const TrainingOptions& options, int64_t train_rows, int64_t test_rows,
               int64_t drain_period)
    : options_(&options),
      train_rows_(train_rows),
      test_rows_(test_rows),
      batch_(options.batch * options.replicas.count),
      steps_per_epoch_((train_rows + batch_ - 1) / batch_),
      total_(options.steps >= 0 ? options.steps : steps_per_epoch_ * options.epochs),
      drain_period_(drain_period) {}

std::optional<TrainingTask> Rounds::next() {
  std::optional<TrainingTask> task = next_round();
  if (!task) return task;
  task->sequence = sequence_++;
  task->next = rows_behind();
  const bool trains = task->kind == TaskKind::kTrain;
  const bool goes_on = trains && task->next.kind == TaskKind::kTrain && task->next.rows > 0 &&
                       (drain_period_ == 0 || step_ % drain_period_ != 0);
  task->ramps = {!std::exchange(under_way_, goes_on), !goes_on};
  return task;
}

TaskRows Rounds::rows_of_step(int64_t step) const {
  const int64_t first = step % steps_per_epoch_ * batch_;
  return {TaskKind::kTrain, step / steps_per_epoch_, first, std::min(batch_, train_rows_ - first)};
}

void Rounds::check_restored() {
  const auto expect = [](bool fine, const std::string& what) {
    if (!fine) throw Error(ErrorCode::kProtocol, what);
  };
  expect(step_ >= 0 && step_ <= total_, kerf::format("its run made {}, and this one ends after {}",
                                                     plural(step_, "step"), total_));
  const TaskRows last = step_ > 0 ? rows_of_step(step_ - 1) : TaskRows{};
  expect(epoch_ == last.epoch && first_ == last.first + last.rows && test_first_ >= 0 &&
             test_first_ <= test_rows_,
         "it is at rows that this run does not have");
  expect(sequence_ >= step_ && sequence_ < kMostTasks, "no run has so many tasks");
  expect(!waits_ && (!evaluating_ || (evaluated_ && options_->evaluate)),
         "it is within an evaluation that this run does not have");
  expect(in_vain_ >= 0 && in_vain_ <= options_->patience &&
             lowest_ > -std::numeric_limits<double>::infinity() &&
             (options_->patience > 0 || !has_best()) &&
             (!keeps_ || (has_best() && !options_->shards.empty())),
         "no run of this patience is there");
  first_step_ = step_;
}

TaskRows Rounds::rows_behind() const {
  if (waits_) return {};
  Rounds ahead = *this;
  const std::optional<TrainingTask> task = ahead.next_round();
  return task ? TaskRows{task->kind, task->epoch, task->first, task->rows} : TaskRows{};
}

bool Rounds::judge(double loss) {
  waits_ = false;
  const bool lower = loss < lowest_;
  in_vain_ = lower ? 0 : in_vain_ + 1;
  if (lower) lowest_ = loss;
  keeps_ = lower && !options_->shards.empty();
  return lower;
}

std::optional<TrainingTask> Rounds::next_round() {
  if (evaluating_) {
    if (auto task = next_evaluation()) return task;
    evaluating_ = false;
  }
  if (std::exchange(keeps_, false)) return save();
  return next_step();
}

std::optional<TrainingTask> Rounds::next_step() {
  if (step_ >= total_ || (options_->patience > 0 && in_vain_ >= options_->patience)) {
    if (!options_->evaluate || evaluated_ || test_rows_ == 0) return next_save();
    begin_evaluation();
    return next_evaluation();
  }
  if (first_ >= train_rows_) {
    ++epoch_;
    first_ = 0;
  }
  TrainingTask task{
      TaskKind::kTrain, 0, step_, epoch_, first_, 0, step_ < first_step_ + options_->trace_steps};
  task.rows = std::min(batch_, train_rows_ - first_);
  task.learning_rate = learning_rate_of(options_->rates, options_->optimizer.learning_rate, step_,
                                        total_, steps_per_epoch_);
  first_ += task.rows;
  ++step_;
  evaluated_ = false;
  if (first_ >= train_rows_ && options_->evaluate) begin_evaluation();
  return task;
}

void Rounds::begin_evaluation() {
  evaluating_ = evaluated_ = true;
  test_first_ = 0;
}

std::optional<TrainingTask> Rounds::next_evaluation() {
  if (test_first_ >= test_rows_) return std::nullopt;
  TrainingTask task{TaskKind::kEvaluate, 0, step_, epoch_, test_first_, 0, false};
  task.rows = std::min(batch_, test_rows_ - test_first_);
  test_first_ += task.rows;
  waits_ = options_->patience > 0 && test_first_ >= test_rows_;
  return task;
}

// With patience, the best weights were saved when they were found.
std::optional<TrainingTask> Rounds::next_save() {
  if (options_->shards.empty() || has_best() || std::exchange(saved_, true)) return std::nullopt;
  return save();
}

TrainingTask Rounds::save() const {
  TrainingTask task;
  task.kind = TaskKind::kSave;
  task.step = step_;
  return task;
}

}  // namespace kerf::schedmp
