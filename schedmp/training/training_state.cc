#include "schedmp/training/training_state.h"

#include <algorithm>

#include "partitioner/losses.h"
#include "runtime/error.h"
#include "runtime/time.h"
#include "schedmp/tables/table_messages.h"
#include "schedmp/training/kept_bytes.h"
#include "schedmp/training/lbfgs_weights.h"
#include "schedmp/training/replica_tasks.h"

namespace kerf::schedmp {

using partitioner::Model;
using partitioner::Plan;

Training::State::State(const TrainingFactories& factories, const Model& model_in,
                       const Plan& plan_in, const Schedule& schedule_in, TrainingOptions options_in,
                       TrainingObserver observer_in, std::optional<OpenSplits> data)
    : model(model_in),
      plan(plan_in),
      schedule(schedule_in),
      options(checked(std::move(options_in), plan, schedule)),
      observer(std::move(observer_in)),
      splits(data ? *std::move(data) : open(factories)),
      train(splits.train.get()),
      test(splits.test.get()),
      rounds(options, rows_of(train), rows_of(test),
             options.drain_every > 0 ? options.drain_every : drain_period_of(schedule)),
      proof(model, plan, schedule, options),
      workers(static_cast<size_t>(plan.workers_bound() * options.replicas.count)),
      routes(plan.routes.size()),
      spans(workers.size()) {
  for (size_t worker = 0; worker < workers.size(); ++worker)
    workers[worker].worker = static_cast<int>(worker);
  note_proof(0, options.replicas.count);
  if (options.lbfgs)
    share_vectors();
  else if (options.replicas.count > 1 && proof.trains())
    share_weights();
  if (proof.trains()) note_kept_bytes();
  check_cap();
  if (model.loss() < 0 && options.results.empty())
    throw Error(ErrorCode::kUsage, "there is no loss to train with", model.name());
  if (train != nullptr && !options.shards.empty()) numbering = train->numbering();
}

TrainingOptions Training::State::checked(TrainingOptions options, const Plan& plan,
                                         const Schedule& schedule) {
  if (!schedule.endless()) options.drain_every = 0;
  if (options.patience > 0 && !options.evaluate)
    throw Error(ErrorCode::kUsage, "patience is for evaluations, and there are none");
  if (options.batch < 1 || options.batch > plan.batch)
    throw Error(
        ErrorCode::kUsage,
        kerf::format("a batch of {} rows, but the plan is for 1 to {}", options.batch, plan.batch),
        plan.model);
  check_replicas(options, plan);
  return options;
}

void Training::State::check_replicas(const TrainingOptions& options, const Plan& plan) {
  if (!options.lbfgs) check(options.replicas);
  const int each = plan.workers_bound();
  const int64_t all = int64_t{each} * options.replicas.count;
  if (all > partitioner::kMostWorkers)
    throw Error(ErrorCode::kUsage,
                kerf::format("{} replicas of {} are more than {} workers", options.replicas.count,
                             plural(each, "worker"), partitioner::kMostWorkers));
  for (int worker = 0; worker < all; ++worker)
    if (partitioner::device_of(options.setting.devices, worker) !=
        partitioner::device_of(options.setting.devices, worker % each))
      throw Error(ErrorCode::kUsage,
                  kerf::format("worker {} of a replica is not on the same kind of device in each: "
                               "devices go to all workers in turn",
                               worker % each));
}

// A run that leaves weights reads training rows, were it in no step, so that what is wrong with
// them is found.
OpenSplits Training::State::open(const TrainingFactories& factories) const {
  return open_splits(factories.dataset, options.dataset,
                     {{}, &model, numbering_of_weights(options.weights)},
                     options.steps != 0 || !options.shards.empty(), options.evaluate);
}

int64_t Training::State::labels_per_row() const {
  const Dataset* any = test != nullptr ? test : train;
  return any == nullptr ? 1 : schedmp::labels_per_row(*any, model);
}

int Training::State::label_axes() const {
  if (partitioner::has_targets(model)) return 0;
  for (partitioner::ValueId id = 0; id < model.values(); ++id)
    if (model.value(id).role == partitioner::Role::kLabel)
      return model.value(id).spec.shape.rank() - 1;
  return 0;
}

void Training::State::note_proof(int replica, int end) {
  const std::vector<int64_t>& peaks = proof.verdict().peak_bytes;
  for (size_t worker = static_cast<size_t>(replica) * peaks.size();
       worker < static_cast<size_t>(end) * peaks.size(); ++worker)
    workers[worker].proved_bytes = peaks[worker % peaks.size()];
}

namespace {

// At both ends, which is where they are where payload travels.
int64_t bytes_of_slots(const LaneTable& lanes, size_t worker) {
  const auto of = [](const std::vector<runtime::Lane>& channel) {
    int64_t bytes = 0;
    for (const runtime::Lane& lane : channel)
      bytes += static_cast<int64_t>(lane.slot_bytes) * lane.slots;
    return bytes;
  };
  int64_t bytes = 0;
  for (size_t other = 0; other < lanes.size(); ++other)
    bytes += of(lanes[worker][other]) + of(lanes[other][worker]);
  return bytes;
}

}  // namespace

void Training::State::share_weights() {
  for (auto& [part, table] : weight_tables(model, proof.parts(), plan.workers_bound(),
                                           options.optimizer, options.replicas)) {
    complete(table, static_cast<int>(workers.size()));
    for (WorkerFigures& worker : workers)
      if (place_in(table, worker.worker))
        worker.table_bytes += table_bytes(table, worker.worker) + client_bytes(table);
    table_of_part.emplace_back(part, static_cast<int32_t>(tables.size()));
    tables.push_back(std::move(table));
  }
  note_slots();
}

void Training::State::note_kept_bytes() {
  const int each = plan.workers_bound();
  const ops::Optimizer own(optimizer_of_worker(options.optimizer, options.replicas));
  const std::vector<int64_t> kept = kept_bytes(model, proof.parts(), each, own.states());
  for (WorkerFigures& worker : workers)
    worker.kept_bytes = kept.at(static_cast<size_t>(worker.worker % each));
  for (const auto& [number, table] : table_of_part)
    for (const partitioner::Part& part : proof.parts()) {
      if (part.part != number) continue;
      const TableSpec& spec = tables[static_cast<size_t>(table)];
      for (WorkerFigures& worker : workers)
        if (place_in(spec, worker.worker))
          worker.kept_bytes +=
              options.lbfgs ? kept_of_vectors(part, spec, worker.worker, options.lbfgs->history)
                            : kept_of_table(part, spec, worker.worker, options.replicas);
    }
}

// A gradient's table is behind its point's.
void Training::State::share_vectors() {
  for (auto& [part, table] :
       point_tables(model, proof.parts(), plan.workers_bound(), options.replicas.count)) {
    complete(table, static_cast<int>(workers.size()));
    for (WorkerFigures& worker : workers)
      worker.table_bytes += lbfgs_bytes(table, worker.worker, options.lbfgs->history);
    table_of_part.emplace_back(part, static_cast<int32_t>(tables.size()));
    tables.push_back(table);
    tables.push_back(std::move(table));
    tables.back().name = kerf::format("gradient of part {}", part);
  }
  note_slots();
}

void Training::State::note_slots() {
  const LaneTable lanes = table_lanes(tables, static_cast<int>(workers.size()));
  if (lanes.empty()) return;
  for (size_t worker = 0; worker < workers.size(); ++worker)
    workers[worker].table_bytes += bytes_of_slots(lanes, worker);
}

void Training::State::check_cap() const {
  if (!options.memory || tables.empty()) return;
  std::vector<int64_t> bytes;
  for (const WorkerFigures& worker : workers)
    bytes.push_back(worker.proved_bytes + worker.table_bytes);
  if (const std::string why = above_cap(bytes, *options.memory); !why.empty())
    throw Error(
        ErrorCode::kInfeasible,
        why + (options.lbfgs ? " (with L-BFGS's vectors)" : " (with tables of its weights)"),
        plan.model);
}

std::vector<Training::Task> Training::State::tasks_of(const TrainingTask& task) {
  if (task.kind == TaskKind::kEvaluate && first_ns < 0) first_ns = runtime::now_ns();
  std::vector<Task> tasks;
  for (const WorkerFigures& each : workers) {
    const int replica = replica_of(each.worker);
    const TrainingTask own = task_of_replica(task, replica, options.replicas.count);
    if (task.kind == TaskKind::kEvaluate && own.rows == 0) continue;
    if (task.kind == TaskKind::kSave && replica > 0) continue;
    tasks.push_back({each.worker, own});
  }
  return tasks;
}

void Training::State::count(const TrainingTask& task, int worker, TrainingResult& result) {
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

const std::vector<partitioner::Traffic>& Training::State::traffic(int64_t rows, bool gradients) {
  const auto [at, fresh] = predicted.try_emplace({rows, gradients});
  if (fresh) at->second = predict_traffic(model, plan, rows, gradients);
  return at->second;
}

void Training::State::predict(const TrainingTask& task) {
  for (int replica = 0; replica < options.replicas.count; ++replica)
    predict_one(task_of_replica(task, replica, options.replicas.count));
}

void Training::State::predict_one(const TrainingTask& task) {
  if (task.kind == TaskKind::kEvaluate && task.rows == 0) return;
  const auto& expected = traffic(task.rows, is_step(task.kind));
  for (size_t route = 0; route < routes.size(); ++route) {
    routes[route].predicted_messages += expected[route].messages;
    routes[route].predicted_bytes += expected[route].bytes;
  }
}

}  // namespace kerf::schedmp
