#include "schedmp/training/training.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>

#include "partitioner/losses.h"
#include "partitioner/step_vector.h"
#include "runtime/error.h"
#include "runtime/time.h"
#include "schedmp/training/lanes.h"
#include "schedmp/training/odd_numbers.h"
#include "schedmp/training/proof.h"
#include "schedmp/training/replica_tasks.h"
#include "schedmp/training/rounds.h"
#include "schedmp/training/row_order.h"

namespace kerf::schedmp {

namespace {

// Rounds that a replica may be ahead of another that nothing else holds up.
constexpr int kMostAhead = 256;

}  // namespace

using partitioner::Model;
using partitioner::Plan;

struct Training::State {
  State(const TrainingFactories& factories, const Model& model_in, const Plan& plan_in,
        const Schedule& schedule_in, TrainingOptions options_in, TrainingObserver observer_in,
        std::optional<OpenSplits> data)
      : model(model_in),
        plan(plan_in),
        schedule(schedule_in),
        options(checked(std::move(options_in), plan)),
        observer(std::move(observer_in)),
        splits(data ? *std::move(data) : open(factories)),
        train(splits.train.get()),
        test(splits.test.get()),
        rounds(options, rows_of(train), rows_of(test)),
        proof(model, plan, schedule, options),
        workers(static_cast<size_t>(plan.workers_bound() * options.replicas.count)),
        routes(plan.routes.size()),
        spans(workers.size()) {
    for (size_t worker = 0; worker < workers.size(); ++worker)
      workers[worker].worker = static_cast<int>(worker);
    note_proof(0, options.replicas.count);
    if (options.replicas.count > 1 && proof.trains()) share_weights();
    check_cap();
    if (model.loss() < 0 && options.results.empty())
      throw Error(ErrorCode::kUsage, "there is no loss to train with", model.name());
    if (train != nullptr && !options.shards.empty()) numbering = train->numbering();
  }

  static TrainingOptions checked(TrainingOptions options, const Plan& plan) {
    if (options.patience > 0 && !options.evaluate)
      throw Error(ErrorCode::kUsage, "patience is for evaluations, and there are none");
    if (options.batch < 1 || options.batch > plan.batch)
      throw Error(ErrorCode::kUsage,
                  kerf::format("a batch of {} rows, but the plan is for 1 to {}", options.batch,
                               plan.batch),
                  plan.model);
    check(options.replicas);
    return options;
  }

  // A run that leaves weights reads training rows, were it in no step, so that what is wrong with
  // them is found.
  OpenSplits open(const TrainingFactories& factories) const {
    return open_splits(factories.dataset, options.dataset,
                       {{}, &model, numbering_of_weights(options.weights)},
                       options.steps != 0 || !options.shards.empty(), options.evaluate);
  }
  static int64_t rows_of(const Dataset* data) { return data == nullptr ? 0 : data->rows(); }
  static std::string fingerprint_of(const Dataset* data) {
    return data == nullptr ? "" : data->fingerprint();
  }
  int64_t labels_per_row() const {
    const Dataset* any = test != nullptr ? test : train;
    return any == nullptr ? 1 : schedmp::labels_per_row(*any, model);
  }

  // As the model has them.
  int label_axes() const {
    if (partitioner::has_targets(model)) return 0;
    for (partitioner::ValueId id = 0; id < model.values(); ++id)
      if (model.value(id).role == partitioner::Role::kLabel)
        return model.value(id).spec.shape.rank() - 1;
    return 0;
  }

  // What each worker of these replicas may take, as proved.
  void note_proof(int replica, int end) {
    const std::vector<int64_t>& peaks = proof.verdict().peak_bytes;
    for (size_t worker = static_cast<size_t>(replica) * peaks.size();
         worker < static_cast<size_t>(end) * peaks.size(); ++worker)
      workers[worker].proved_bytes = peaks[worker % peaks.size()];
  }

  void share_weights() {
    for (auto& [part, table] : weight_tables(model, proof.parts(), plan.workers_bound(),
                                             options.optimizer, options.replicas)) {
      table_of_part.emplace_back(part, static_cast<int32_t>(tables.size()));
      complete(table, static_cast<int>(workers.size()));
      for (WorkerFigures& worker : workers) worker.table_bytes += table_bytes(table, worker.worker);
      tables.push_back(std::move(table));
    }
  }

  // With tables; without, the proof does.
  void check_cap() const {
    if (!options.memory || tables.empty()) return;
    std::vector<int64_t> bytes;
    for (const WorkerFigures& worker : workers)
      bytes.push_back(worker.proved_bytes + worker.table_bytes);
    if (const std::string why = above_cap(bytes, *options.memory); !why.empty())
      throw Error(ErrorCode::kInfeasible, why + " (with tables of its weights)", plan.model);
  }

  int replica_of(int worker) const { return worker / plan.workers_bound(); }

  const std::vector<partitioner::Traffic>& traffic(int64_t rows, bool gradients) {
    const auto [at, fresh] = predicted.try_emplace({rows, gradients});
    if (fresh) at->second = predict_traffic(model, plan, rows, gradients);
    return at->second;
  }

  void count(const TrainingTask& task, int worker, TrainingResult& result) {
    WorkerFigures& figures = workers[static_cast<size_t>(worker)];
    figures.compute_seconds += static_cast<double>(result.compute_ns) * 1e-9;
    figures.wait_seconds += static_cast<double>(result.wait_ns) * 1e-9;
    figures.bytes_in += result.bytes_in;
    figures.peak_bytes = std::max(figures.peak_bytes, result.peak_bytes);
    figures.kernel_bytes = std::max(figures.kernel_bytes, result.kernel_bytes);
    figures.resident_bytes = std::max(figures.resident_bytes, result.resident_bytes);
    figures.data_bytes = std::max(figures.data_bytes, result.data_bytes);
    for (const RouteCount& sent : result.sent) {
      if (sent.route < 0 || static_cast<size_t>(sent.route) >= routes.size())
        throw Error(ErrorCode::kProtocol, kerf::format("there is no route {}", sent.route),
                    kerf::format("worker {}", worker));
      const bool local = is_local(plan, plan.routes[static_cast<size_t>(sent.route)]);
      (local ? figures.local_messages : figures.messages) += sent.messages;
      (local ? figures.local_bytes : figures.bytes_out) += sent.bytes;
      routes[static_cast<size_t>(sent.route)].messages += sent.messages;
      routes[static_cast<size_t>(sent.route)].bytes += sent.bytes;
    }
    if (task.trace)
      for (runtime::Span& span : result.spans)
        spans[static_cast<size_t>(worker)].push_back(std::move(span));
  }

  // What a worker says of its replica's rows, as of those of all.
  void add(const TrainingTask& task, int worker, const TrainingResult& result,
           TrainingResult& sum) const {
    const int replicas = options.replicas.count;
    const int64_t rows = task_of_replica(task, replica_of(worker), replicas).rows;
    const double part = static_cast<double>(rows) / static_cast<double>(task.rows);
    if (rows > 0) sum.loss += part * result.loss;
    sum.correct += result.correct;
    sum.in_top += result.in_top;
    sum.squared_norm += result.squared_norm / replicas;
    if (sum.cause == 0) sum.cause = result.cause;
  }

  void predict(const TrainingTask& task) {
    for (int replica = 0; replica < options.replicas.count; ++replica)
      predict_one(task_of_replica(task, replica, options.replicas.count));
  }
  void predict_one(const TrainingTask& task) {
    if (task.kind == TaskKind::kEvaluate && task.rows == 0) return;
    const auto& expected = traffic(task.rows, task.kind == TaskKind::kTrain);
    for (size_t route = 0; route < routes.size(); ++route) {
      routes[route].predicted_messages += expected[route].messages;
      routes[route].predicted_bytes += expected[route].bytes;
    }
  }

  // Folds a finished round in: losses are means over its rows.
  void fold_step(const TrainingTask& task, const TrainingResult& result, int64_t end_ns) {
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
    if (observer.step) observer.step(steps.back());
    check_skipped();
  }

  std::vector<int64_t> rows_of_step(const StepRecord& step) const {
    const int64_t batch = options.batch * options.replicas.count;
    const int64_t in_an_epoch = (train->rows() + batch - 1) / batch;
    const int64_t first = step.step % in_an_epoch * batch;
    std::vector<int64_t> rows(static_cast<size_t>(step.rows));
    std::iota(rows.begin(), rows.end(), first);
    if (!options.shuffle) return rows;
    const RowOrder order(train->rows(), options.seed, step.epoch);
    for (int64_t& row : rows) row = order[row];
    return rows;
  }

  // A run that learns nothing any more ends: after so many steps in a row that were not finite, and
  // where it would end among them, unless that was the only one.
  void check_skipped() const {
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
  void check_evaluated(const TrainingTask& task, const TrainingResult& sum) const {
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

  void fold_evaluation(const TrainingTask& task, const TrainingResult& sum, int64_t end_ns) {
    check_evaluated(task, sum);
    if (task.first == 0) {
      evaluations.push_back({task.epoch, 0, 0, 0, labels_per_row()});
      evaluations.back().of_classes = !partitioner::has_targets(model);
      if (counts_top()) evaluations.back().in_top = 0;
      evaluations.back().label_axes = label_axes();
    }
    EvaluationRecord& record = evaluations.back();
    record.loss = (record.loss * static_cast<double>(record.rows) +
                   sum.loss * static_cast<double>(task.rows)) /
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
  bool counts_top() const {
    return model.loss() >= 0 && model.op(model.loss()).answers() == ops::Answers::kLargestScore &&
           label_classes(model) > kTop;
  }

  // The last weights are kept, or with patience those of the lowest loss, once one is finite.
  void note_kept() {
    if (rounds.waits() && !rounds.judge(evaluations.back().loss) && rounds.has_best()) return;
    for (EvaluationRecord& each : evaluations) each.kept = false;
    evaluations.back().kept = true;
  }

  const Model model;
  const Plan plan;
  const Schedule schedule;
  const TrainingOptions options;
  const TrainingObserver observer;
  const OpenSplits splits;
  const Dataset* const train;
  const Dataset* const test;
  Numbering numbering;
  Rounds rounds;
  TrainingProof proof;
  std::vector<TableSpec> tables;  // of weights, where there are replicas
  std::vector<std::pair<int32_t, int32_t>> table_of_part;
  std::deque<TrainingTask> under_way;
  // Of evaluations: when the first batch was handed out, and when the last result came in.
  int64_t first_ns = -1;
  int64_t last_ns = 0;
  std::vector<std::vector<WorkerTime>> evaluation_times;
  std::map<std::pair<int64_t, bool>, std::vector<partitioner::Traffic>> predicted;
  std::vector<StepRecord> steps;
  std::vector<EvaluationRecord> evaluations;
  std::vector<WorkerFigures> workers;
  std::vector<RouteFigures> routes;
  std::vector<std::vector<runtime::Span>> spans;
};

Training::Training(const TrainingFactories& factories, const Model& model, const Plan& plan,
                   const Schedule& schedule, TrainingOptions options, TrainingObserver observer,
                   std::optional<OpenSplits> data)
    : state_(std::make_unique<State>(factories, model, plan, schedule, std::move(options),
                                     std::move(observer), std::move(data))) {}

Training::~Training() = default;

void Training::channels_go_over(const TransportTable& transports) {
  State& half = *state_;
  for (int replica = 0; replica < half.options.replicas.count; ++replica) {
    half.proof.channels_go_over(
        transports_of_replica(transports, replica, half.plan.workers_bound()));
    half.note_proof(replica, replica + 1);
  }
  half.check_cap();
}

int Training::count_workers() const { return static_cast<int>(state_->workers.size()); }

std::vector<TableSpec> Training::tables(int /*workers*/) { return state_->tables; }

TrainingJob Training::job(int worker) {
  const State& half = *state_;
  return {half.options.model_source,
          write_plan(half.model, half.plan),
          write_schedule(half.schedule),
          half.options.dataset,
          half.train != nullptr,
          half.test != nullptr,
          State::fingerprint_of(half.train),
          State::fingerprint_of(half.test),
          half.options.shuffle,
          half.options.seed,
          half.options.optimizer,
          half.options.shards.string(),
          half.options.weights,
          half.options.results.string(),
          half.proof.trains(),
          credits_of(half.proof.verdict(), half.options.setting.slots),
          half.workers.at(static_cast<size_t>(worker)).proved_bytes,
          half.options.replicas,
          half.replica_of(worker) * half.plan.workers_bound(),
          half.table_of_part};
}

LaneTable Training::lanes(int workers) const {
  const State& half = *state_;
  KERF_CHECK(workers == count_workers(), "the run is of {} workers", count_workers());
  return lanes_of_replicas(size_lanes(half.model, half.plan,
                                      credits_of(half.proof.verdict(), half.options.setting.slots)),
                           half.options.replicas.count);
}

// Enough that no worker waits for the scheduler, nor, of the batches of an evaluation, for a batch;
// and no replica for another that it need not wait for.
int Training::depth() const {
  const ReplicaOptions& replicas = state_->options.replicas;
  const int ahead = std::max(4, state_->plan.workers_bound() + 1);
  if (replicas.count == 1) return ahead;
  if (replicas.consistency.kind == Consistency::Kind::kAsync) return std::max(ahead, kMostAhead);
  return ahead + static_cast<int>(std::min<int64_t>(replicas.consistency.count, kMostAhead));
}

Training::Decision Training::schedule(int64_t /*round*/) {
  if (state_->rounds.waits()) return Wait{};
  const std::optional<TrainingTask> task = state_->rounds.next();
  if (!task) return Done{};
  state_->under_way.push_back(*task);
  if (task->kind == TaskKind::kEvaluate && state_->first_ns < 0)
    state_->first_ns = runtime::now_ns();
  std::vector<Task> tasks;
  const int replicas = state_->options.replicas.count;
  for (int worker = 0; worker < count_workers(); ++worker) {
    const TrainingTask own = task_of_replica(*task, state_->replica_of(worker), replicas);
    if (task->kind == TaskKind::kEvaluate && own.rows == 0) continue;
    if (task->kind == TaskKind::kSave && state_->replica_of(worker) > 0) continue;
    tasks.push_back({worker, own});
  }
  return tasks;
}

void Training::aggregate(int64_t /*round*/, std::vector<Result> results) {
  State& half = *state_;
  const TrainingTask task = half.under_way.front();
  half.under_way.pop_front();
  if (task.kind == TaskKind::kSave) return;
  TrainingResult
      sum;  // of an evaluation each worker has its share of the rows; of training, one all
  int reports = 0;
  std::vector<WorkerTime> times;
  for (Result& each : results) {
    TrainingResult& result = each.payload;
    half.count(task, each.worker, result);
    times.push_back({result.begin_ns, result.end_ns});
    sum.staleness = std::max(sum.staleness, result.staleness);
    if (!result.has_loss) continue;
    ++reports;
    half.add(task, each.worker, result, sum);
  }
  half.predict(task);
  const int64_t end_ns = times.front().end_ns;
  if (task.kind == TaskKind::kEvaluate) {
    half.last_ns = runtime::now_ns();
    half.evaluation_times.push_back(std::move(times));
    return half.fold_evaluation(task, sum, end_ns);
  }
  KERF_CHECK(reports == half.options.replicas.count, "{} workers concluded step {}", reports,
             task.step);
  half.fold_step(task, sum, end_ns);
}

const std::vector<StepRecord>& Training::steps() const { return state_->steps; }
const std::vector<EvaluationRecord>& Training::evaluations() const { return state_->evaluations; }
const std::vector<std::vector<WorkerTime>>& Training::evaluation_times() const {
  return state_->evaluation_times;
}
double Training::seconds_between() const {
  return static_cast<double>(state_->last_ns - state_->first_ns) * 1e-9;
}
const std::vector<WorkerFigures>& Training::workers() const { return state_->workers; }
const std::vector<RouteFigures>& Training::routes() const { return state_->routes; }
const Numbering& Training::numbering() const { return state_->numbering; }
int64_t Training::labels_per_row() const { return state_->labels_per_row(); }
int Training::label_axes() const { return state_->label_axes(); }
int64_t Training::total_steps() const { return state_->rounds.total_steps(); }
const Verdict& Training::verdict() const { return state_->proof.verdict(); }

std::vector<std::vector<runtime::Span>> Training::take_spans() {
  return std::exchange(state_->spans,
                       std::vector<std::vector<runtime::Span>>(state_->workers.size()));
}

}  // namespace kerf::schedmp
