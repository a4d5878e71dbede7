// What the scheduler's half of a training makes of a round's results: a record of a step, or of an
// evaluation; and what ends a run that learns nothing any more.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "partitioner/losses.h"
#include "partitioner/step_vector.h"
#include "runtime/error.h"
#include "runtime/time.h"
#include "schedmp/training/odd_numbers.h"
#include "schedmp/training/replica_tasks.h"
#include "schedmp/training/row_order.h"
#include "schedmp/training/training_state.h"

namespace kerf::schedmp {

// Of an evaluation each worker has its share of the rows; of training, one all.
void Training::State::fold(const TrainingTask& task, std::vector<Result> results) {
  if (task.kind == TaskKind::kSave) return;
  for (Result& each : results) count(task, each.worker, each.payload);
  predict(task);
  const int64_t end_ns = results.front().payload.end_ns;
  if (task.kind == TaskKind::kEvaluate) {
    last_ns = runtime::now_ns();
    std::vector<WorkerTime>& times = evaluation_times.emplace_back();
    for (const Result& each : results)
      times.push_back({each.payload.begin_ns, each.payload.end_ns});
    return fold_evaluation(task, sum_of(task, results), end_ns);
  }
  const auto reports =
      std::ranges::count_if(results, [](const Result& each) { return each.payload.has_loss; });
  KERF_CHECK(reports == options.replicas.count, "{} workers concluded step {}", reports, task.step);
  const int left_out = leave_out(task, results);
  fold_step(task, sum_of(task, results), end_ns);
  steps.back().left_out = left_out;
  if (observer.step) observer.step(steps.back());
  tell_computed(results);
  check_skipped();
}

void Training::State::tell_computed(const std::vector<Result>& results) const {
  if (!observer.computed) return;
  std::vector<int64_t> compute_ns(workers.size());
  for (const Result& each : results)
    compute_ns[static_cast<size_t>(each.worker)] = each.payload.compute_ns;
  observer.computed(steps.back(), compute_ns);
}

int64_t Training::State::rows_of(const TrainingTask& task, const Result& result) const {
  return task_of_replica(task, replica_of(result.worker), options.replicas.count).rows;
}

// Replicas without rows have nothing to say; those whose step was not finite changed nothing, and
// the step is that of the others. Where it is of nobody, all stay.
int Training::State::leave_out(const TrainingTask& task, std::vector<Result>& results) const {
  for (Result& each : results)
    each.payload.has_loss = each.payload.has_loss && rows_of(task, each) > 0;
  const auto concludes = [](const Result& each) { return each.payload.has_loss; };
  const auto is_odd = [&](const Result& each) {
    return concludes(each) && each.payload.cause != 0;
  };
  const auto odd = std::ranges::count_if(results, is_odd);
  if (odd == std::ranges::count_if(results, concludes)) return 0;
  for (Result& each : results) each.payload.has_loss = concludes(each) && !is_odd(each);
  return static_cast<int>(odd);
}

// What workers say of their replicas' rows, as of those of all.
TrainingResult Training::State::sum_of(const TrainingTask& task,
                                       const std::vector<Result>& results) const {
  const bool trains = task.kind == TaskKind::kTrain;
  int64_t rows = trains ? 0 : task.rows;
  int reports = 0;
  for (const Result& each : results)
    if (each.payload.has_loss && trains) {
      rows += rows_of(task, each);
      ++reports;
    }
  TrainingResult sum;
  for (const Result& each : results) {
    const TrainingResult& result = each.payload;
    sum.staleness = std::max(sum.staleness, result.staleness);
    if (!result.has_loss) continue;
    sum.loss += static_cast<double>(rows_of(task, each)) / static_cast<double>(rows) * result.loss;
    sum.correct += result.correct;
    sum.in_top += result.in_top;
    if (trains) sum.squared_norm += result.squared_norm / reports;
    if (sum.cause == 0) sum.cause = result.cause;
  }
  return sum;
}

// Folds a finished round in: losses are means over its rows.
void Training::State::fold_step(const TrainingTask& task, const TrainingResult& result,
                                int64_t end_ns) {
  steps.push_back({task.step,
                   task.epoch,
                   task.rows,
                   result.loss,
                   result.correct,
                   std::sqrt(result.squared_norm),
                   {},
                   task.learning_rate,
                   end_ns,
                   result.staleness});
  if (result.cause != 0)
    steps.back().skipped =
        entry_name(model, partitioner::StepVector(model, plan.micro_batches), result.cause);
}

std::vector<int64_t> Training::State::rows_of_step(const StepRecord& step) const {
  std::vector<int64_t> rows(static_cast<size_t>(step.rows));
  std::iota(rows.begin(), rows.end(), rounds.rows_of_step(step.step).first);
  if (!options.shuffle) return rows;
  const RowOrder order(train->rows(), options.seed, step.epoch);
  for (int64_t& row : rows) row = order[row];
  return rows;
}

// A run that learns nothing any more ends: after so many steps in a row that were not finite, and
// where it would end among them, unless that was the only one.
void Training::State::check_skipped() const {
  const auto finite = std::find_if(steps.rbegin(), steps.rend(),
                                   [](const StepRecord& step) { return step.skipped.empty(); });
  const int64_t in_a_row = finite - steps.rbegin();
  const bool last = std::ssize(steps) == rounds.total_steps();
  const bool all = finite == steps.rend();
  if (in_a_row == 0 || (in_a_row < options.most_skipped && !(last && (all || in_a_row > 1))))
    return;
  const StepRecord& first = steps[steps.size() - static_cast<size_t>(in_a_row)];
  const std::string where =
      first.skipped == "the loss" ? model.node(model.loss()).name : plan.model;
  if (const std::string odd = odd_number(*train, model, rows_of_step(first)); !odd.empty())
    throw Error(ErrorCode::kUsage,
                kerf::format("{} of the training rows is not finite, so {} is not either", odd,
                             first.skipped),
                options.dataset);
  throw Error(ErrorCode::kUsage,
              kerf::format("{} is no longer a finite number; a smaller --lr may help ({} from "
                           "this one on, {})",
                           first.skipped, plural(in_a_row, "step"),
                           schedule.updates_within() ? "where updates behind it were left out"
                                                     : "nothing was updated"),
              kerf::format("{}, step {}", where, first.step));
}

// While it trains that is one evaluation; of weights that were given nothing else is to be said.
void Training::State::check_evaluated(const TrainingTask& task, const TrainingResult& sum) const {
  if (std::isfinite(sum.loss) || proof.trains()) return;
  std::vector<int64_t> rows(static_cast<size_t>(task.rows));
  std::iota(rows.begin(), rows.end(), task.first);
  if (const std::string odd = odd_number(*test, model, rows); !odd.empty())
    throw Error(ErrorCode::kUsage,
                kerf::format("{} of the tests is not finite, so the loss is not either", odd),
                options.dataset);
  throw Error(ErrorCode::kUsage, "the loss of these weights is no finite number",
              model.node(model.loss()).name);
}

void Training::State::fold_evaluation(const TrainingTask& task, const TrainingResult& sum,
                                      int64_t end_ns) {
  check_evaluated(task, sum);
  if (task.first == 0) {
    evaluations.push_back({task.epoch, 0, 0, 0, labels_per_row()});
    evaluations.back().of_classes = !partitioner::has_targets(model);
    if (counts_top()) evaluations.back().in_top = 0;
    evaluations.back().label_axes = label_axes();
  }
  EvaluationRecord& record = evaluations.back();
  record.loss =
      (record.loss * static_cast<double>(record.rows) + sum.loss * static_cast<double>(task.rows)) /
      static_cast<double>(record.rows + task.rows);
  record.rows += task.rows;
  record.end_ns = end_ns;
  record.correct += sum.correct;
  if (record.in_top) *record.in_top += sum.in_top;
  if (record.rows < test->rows()) return;
  note_kept();
  if (observer.evaluation) observer.evaluation(record);
}

// Where classes are divided, a part of them is all that any worker sees.
bool Training::State::counts_top() const {
  return model.loss() >= 0 && model.op(model.loss()).answers() == ops::Answers::kLargestScore &&
         label_classes(model) > kTop;
}

// The last weights are kept, or with patience those of the lowest loss, once one is finite.
void Training::State::note_kept() {
  if (rounds.waits() && !rounds.judge(evaluations.back().loss) && rounds.has_best()) return;
  for (EvaluationRecord& each : evaluations) each.kept = false;
  evaluations.back().kept = true;
}

}  // namespace kerf::schedmp
