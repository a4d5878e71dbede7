#include "schedmp/training/lbfgs_training.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "partitioner/step_vector.h"
#include "runtime/error.h"
#include "runtime/wire.h"
#include "schedmp/training/odd_numbers.h"
#include "schedmp/training/training_state.h"

namespace kerf::schedmp {

namespace {

// Portions of a replica under way: one that it does, and one that waits for it.
constexpr int kPortionsAhead = 2;
constexpr int64_t kMostSequence = int64_t{1} << 60;

TrainingOptions by_iterations(TrainingOptions options) {
  KERF_CHECK(options.lbfgs.has_value(), "no options of L-BFGS");
  if (options.lbfgs->most_iterations < 1)
    throw Error(ErrorCode::kUsage, "L-BFGS without an iteration learns nothing");
  options.optimizer = {};
  options.steps = options.lbfgs->most_iterations;
  options.epochs = 1;
  return options;
}

TrainingOptions without_steps(TrainingOptions options) {
  options.steps = 0;
  return options;
}

}  // namespace

LbfgsTraining::LbfgsTraining(const TrainingFactories& factories, const partitioner::Model& model,
                             const partitioner::Plan& plan, const Schedule& schedule,
                             TrainingOptions options, TrainingObserver observer,
                             std::optional<OpenSplits> data)
    : Training(factories, model, plan, schedule, by_iterations(std::move(options)),
               std::move(observer), std::move(data)),
      state_(state()),
      lbfgs_(*state_.options.lbfgs),
      options_at_end_(without_steps(state_.options)),
      rounds_at_end_(options_at_end_, state_.train->rows(), State::rows_of(state_.test)),
      under_way_(static_cast<size_t>(state_.options.replicas.count)),
      done_(under_way_.size()) {}

LbfgsTraining::~LbfgsTraining() = default;

int64_t LbfgsTraining::portions() const {
  return (state_.train->rows() + state_.options.batch - 1) / state_.options.batch;
}

int64_t LbfgsTraining::full_portions() const { return state_.train->rows() / state_.options.batch; }

// Beside all portions, what comes before and behind them.
int LbfgsTraining::depth() const {
  return std::max(Training::depth(), kPortionsAhead * state_.options.replicas.count + 2);
}

LbfgsTraining::Decision LbfgsTraining::schedule(int64_t round) {
  const bool rested = rests();
  Decision decision = next(round);
  if (std::holds_alternative<std::vector<Task>>(decision)) {
    last_round_ = round;
    last_rested_ = rested;
  }
  return decision;
}

bool LbfgsTraining::rests() const {
  return open_.empty() && (phase_ == Phase::kVectors || phase_ == Phase::kLastPlace) &&
         lbfgs_.rests();
}

int64_t LbfgsTraining::progress(int64_t /*next_round*/) const { return std::ssize(state_.steps); }

template <class Archive>
void LbfgsTraining::keep(Archive& archive) {
  archive(sequence_, state_.steps);
  lbfgs_.state(archive);
}

std::string LbfgsTraining::snapshot() {
  runtime::WireWriter writer;
  keep(writer);
  return writer.take();
}

void LbfgsTraining::restore(std::string_view snapshot) {
  try {
    runtime::WireReader reader(snapshot);
    keep(reader);
    if (reader.left() != 0) runtime::throw_wire_fault("bytes are left over");
    lbfgs_.go_on();
    check_restored();
  } catch (...) {
    runtime::rethrow_as_protocol_error();
  }
  phase_ = lbfgs_.command().act == LbfgsAct::kStop ? Phase::kLastPlace : Phase::kVectors;
  first_evaluation_ = lbfgs_.evaluations();
  state_.resumed_steps = std::ssize(state_.steps);
}

void LbfgsTraining::check_restored() const {
  const auto expect = [](bool fine, const char* what) {
    if (!fine) throw Error(ErrorCode::kProtocol, what);
  };
  expect(sequence_ >= 0 && sequence_ < kMostSequence, "no run has so many tasks");
  expect(std::ssize(state_.steps) == lbfgs_.iterations(),
         "it has records of other iterations than it made");
  for (int64_t i = 0; i < std::ssize(state_.steps); ++i) {
    const StepRecord& step = state_.steps[static_cast<size_t>(i)];
    expect(step.step == i && step.epoch == 0 && step.rows == state_.train->rows(),
           "a record of it is of no iteration of this run");
  }
}

LbfgsTraining::Decision LbfgsTraining::next(int64_t round) {
  switch (phase_) {
    case Phase::kPlace:
      phase_ = Phase::kPortions;
      next_portion_ = correct_ = cause_ = 0;
      loss_ = 0;
      return open_everywhere(round, TaskKind::kPlace);
    case Phase::kPortions:
      return next_portion(round);
    case Phase::kCollect:
      phase_ = Phase::kAnswer;
      return open_everywhere(round, TaskKind::kCollect);
    case Phase::kVectors:
      phase_ = Phase::kAnswer;
      sums_ = nothing_of(lbfgs_.command().work);
      return open_everywhere(round, TaskKind::kVectors);
    case Phase::kAnswer:
      return Wait{};
    case Phase::kLastPlace:
      phase_ = Phase::kEnd;
      return open_everywhere(round, TaskKind::kPlace);
    case Phase::kEnd:
      return next_at_end(round);
  }
  return Done{};
}

std::vector<Training::Task> LbfgsTraining::open(int64_t round, TrainingTask task, int replica) {
  task.sequence = sequence_++;
  Open& under_way = open_[round];
  under_way.replica = replica;
  std::vector<Task> tasks;
  if (task.kind == TaskKind::kEvaluate || task.kind == TaskKind::kSave)
    tasks = state_.tasks_of(task);
  else
    for (const WorkerFigures& each : state_.workers)
      if (replica < 0 || replica == state_.replica_of(each.worker))
        tasks.push_back({each.worker, task});
  under_way.missing = tasks.size();
  under_way.task = std::move(task);
  return tasks;
}

std::vector<Training::Task> LbfgsTraining::open_everywhere(int64_t round, TaskKind kind) {
  TrainingTask task;
  task.kind = kind;
  if (kind == TaskKind::kCollect) task.rows = state_.train->rows();
  if (kind == TaskKind::kVectors) task.work = lbfgs_.command().work;
  return open(round, std::move(task));
}

int LbfgsTraining::free_replica() const {
  const auto least = std::ranges::min_element(under_way_);
  return *least < kPortionsAhead ? static_cast<int>(least - under_way_.begin()) : -1;
}

// What is drawn at random in a portion is the same in every evaluation: its number is the step.
LbfgsTraining::Decision LbfgsTraining::next_portion(int64_t round) {
  const int replica = free_replica();
  if (replica < 0) return Wait{};
  const int64_t batch = state_.options.batch;
  TrainingTask task;
  task.kind = TaskKind::kPortion;
  task.step = next_portion_;
  task.first = next_portion_ * batch;
  task.rows = std::min(batch, state_.train->rows() - task.first);
  task.trace = lbfgs_.evaluations() == first_evaluation_ && task.step < state_.options.trace_steps;
  if (++next_portion_ == portions()) phase_ = Phase::kCollect;
  ++under_way_[static_cast<size_t>(replica)];
  return open(round, std::move(task), replica);
}

LbfgsTraining::Decision LbfgsTraining::next_at_end(int64_t round) {
  std::optional<TrainingTask> task = rounds_at_end_.next();
  if (!task) return Done{};
  return open(round, *std::move(task));
}

// Rounds are folded in in their order, so that losses are added up in that of portions.
void LbfgsTraining::aggregate(int64_t round, std::vector<Result> results) {
  Open& of = open_.at(round);
  for (Result& each : results) of.results.push_back(std::move(each));
  of.missing -= results.size();
  if (of.missing > 0) return;
  if (of.replica >= 0) --under_way_[static_cast<size_t>(of.replica)];
  while (!open_.empty() && open_.begin()->second.missing == 0)
    fold(std::move(open_.extract(open_.begin()).mapped()));
  if (open_.empty() && phase_ == Phase::kAnswer) answer();
}

void LbfgsTraining::fold(Open open) {
  const TrainingTask& task = open.task;
  std::ranges::sort(open.results, {}, &Result::worker);
  if (task.kind == TaskKind::kEvaluate || task.kind == TaskKind::kSave)
    return state_.fold(task, std::move(open.results));
  for (Result& each : open.results) {
    state_.count(task, each.worker, each.payload);
    if (task.kind == TaskKind::kVectors) schedmp::fold(task.work, each.payload.sums, sums_);
  }
  if (task.kind == TaskKind::kPortion) {
    ++done_[static_cast<size_t>(open.replica)];
    fold_portion(task, open.results);
  }
  const int replicas = task.kind == TaskKind::kPortion ? 1 : state_.options.replicas.count;
  for (int replica = 0; is_step(task.kind) && replica < replicas; ++replica)
    state_.predict_one(task);
}

void LbfgsTraining::fold_portion(const TrainingTask& task, std::vector<Result>& results) {
  const auto concluded =
      std::ranges::find_if(results, [](const Result& each) { return each.payload.has_loss; });
  KERF_CHECK(concluded != results.end(), "nobody concluded portion {}", task.step);
  const TrainingResult& result = concluded->payload;
  if (cause_ == 0) cause_ = result.cause;
  loss_ += result.loss * static_cast<double>(task.rows);
  correct_ += result.correct;
  end_ns_ = results.front().payload.end_ns;
}

void LbfgsTraining::answer() {
  // Whether these sums are the first of the point that an iteration came to.
  const bool accepted = lbfgs_.iterations() > std::ssize(state_.steps);
  if (lbfgs_.command().act == LbfgsAct::kVectors) {
    lbfgs_.tell(sums_);
    if (accepted) note_iteration();
  } else {
    const double loss = loss_ / static_cast<double>(state_.train->rows());
    lbfgs_.tell(cause_ == 0 ? loss : std::numeric_limits<double>::infinity());
  }
  switch (lbfgs_.command().act) {
    case LbfgsAct::kEvaluate:
      phase_ = Phase::kPlace;
      break;
    case LbfgsAct::kVectors:
      phase_ = Phase::kVectors;
      break;
    case LbfgsAct::kStop:
      check_start();
      phase_ = Phase::kLastPlace;
      break;
  }
}

void LbfgsTraining::note_iteration() {
  StepRecord record;
  record.step = std::ssize(state_.steps);
  record.rows = state_.train->rows();
  record.loss = lbfgs_.loss();
  record.correct = correct_;
  record.gradient_norm = lbfgs_.gradient_norm();
  record.end_ns = end_ns_;
  state_.steps.push_back(record);
  if (state_.observer.step) state_.observer.step(record);
}

// A run that has nothing to begin from ends.
void LbfgsTraining::check_start() const {
  if (cause_ == 0 || lbfgs_.iterations() > 0 || lbfgs_.evaluations() > 1) return;
  const std::string what = entry_name(
      state_.model, partitioner::StepVector(state_.model, state_.plan.micro_batches), cause_);
  std::vector<int64_t> rows(static_cast<size_t>(state_.train->rows()));
  std::iota(rows.begin(), rows.end(), 0);
  if (const std::string odd = odd_number(*state_.train, state_.model, rows); !odd.empty())
    throw Error(
        ErrorCode::kUsage,
        kerf::format("{} of the training rows is not finite, so {} is not either", odd, what),
        state_.options.dataset);
  throw Error(ErrorCode::kUsage,
              kerf::format("{} is no finite number at the start; begin from other --weights", what),
              state_.plan.model);
}

std::unique_ptr<Training> make_training(const TrainingFactories& factories,
                                        const partitioner::Model& model,
                                        const partitioner::Plan& plan, const Schedule& schedule,
                                        TrainingOptions options, TrainingObserver observer,
                                        std::optional<OpenSplits> data) {
  if (options.lbfgs)
    return std::make_unique<LbfgsTraining>(factories, model, plan, schedule, std::move(options),
                                           std::move(observer), std::move(data));
  return std::make_unique<Training>(factories, model, plan, schedule, std::move(options),
                                    std::move(observer), std::move(data));
}

}  // namespace kerf::schedmp
