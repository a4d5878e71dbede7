#include "apps/kerf/run_training.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/kerf/learning_flags.h"
#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "apps/programs.h"
#include "apps/slow_workers.h"
#include "schedmp/training/kept_bytes.h"
#include "schedmp/training/lbfgs_training.h"
#include "schedmp/versions.h"

namespace kerf::apps {

namespace {

constexpr double kSlowLink = 12.5e6;  // bytes a second: of a link that nobody told us of

// What a worker computes for the largest micro-batch, and what its messages of a step take over a
// slow link, as those of the weights go all in one action.
double longest_action_seconds(const partitioner::Plan& plan) {
  double most = 0;
  const double share =
      static_cast<double>(plan.largest_micro_batch()) / static_cast<double>(plan.batch);
  for (const auto& worker : plan.workers)
    most = std::max(most, worker.seconds * share +
                              static_cast<double>(worker.bytes_in + worker.bytes_out) / kSlowLink);
  return most;
}

std::optional<double> if_known(double figure) {
  return figure > 0 ? std::optional(figure) : std::nullopt;
}

std::optional<double> if_finite(double figure) {
  return std::isfinite(figure) ? std::optional(figure) : std::nullopt;
}

// Not this one, nor another worker's.
bool has_own_process(const std::vector<runtime::WorkerInfo>& crew, size_t worker) {
  const auto of_same = [&](const runtime::WorkerInfo& each) {
    return each.pid == crew[worker].pid;
  };
  return crew[worker].pid != getpid() && std::count_if(crew.begin(), crew.end(), of_same) == 1;
}

std::vector<RunRecord::Worker> workers_of(const Planned& planned, const Outcome& outcome) {
  std::vector<RunRecord::Worker> workers;
  for (const auto& figures : outcome.training->workers()) {
    const auto at = static_cast<size_t>(figures.worker);
    const size_t in_plan = at % planned.plan.workers.size();
    const runtime::WorkerInfo& info = outcome.driven.crew[at];
    workers.push_back(
        {.worker = figures.worker,
         .pid = info.pid,
         .device = info.device,
         .compute_seconds = figures.compute_seconds,
         .wait_seconds = figures.wait_seconds,
         .messages = figures.messages,
         .bytes_in = figures.bytes_in,
         .bytes_out = figures.bytes_out,
         .local_messages = figures.local_messages,
         .local_bytes = figures.local_bytes,
         .peak_bytes = figures.peak_bytes,
         .kernel_bytes = figures.kernel_bytes,
         .proved_bytes = figures.proved_bytes,
         .table_bytes = figures.table_bytes,
         .predicted_peak_bytes = outcome.training->verdict().peak_bytes[in_plan],
         .resident_bytes = has_own_process(outcome.driven.crew, at) ? figures.resident_bytes : -1,
         .data_bytes = figures.data_bytes,
         .predicted_step_seconds = planned.plan.workers[in_plan].seconds,
         .resent = info.resent,
         .dropped = info.dropped,
         .spans_lost = info.spans_lost});
  }
  return workers;
}

RunRecord::Replicas replicas_of(const Outcome& outcome) {
  RunRecord::Replicas replicas{.count = outcome.replicas.count,
                               .consistency = to_string(outcome.replicas.consistency),
                               .server_groups = outcome.replicas.server_groups,
                               .push_every = outcome.replicas.pushes_every(),
                               .fetch_every = outcome.replicas.fetches_every()};
  for (const schedmp::StepRecord& step : outcome.training->steps()) {
    replicas.staleness = std::max(replicas.staleness, step.staleness);
    replicas.left_out += step.left_out;
  }
  return replicas;
}

std::optional<RunRecord::Lbfgs> lbfgs_of(const schedmp::Training& training) {
  const auto* half = dynamic_cast<const schedmp::LbfgsTraining*>(&training);
  if (half == nullptr) return std::nullopt;
  const schedmp::Lbfgs& lbfgs = half->lbfgs();
  return RunRecord::Lbfgs{lbfgs.converged(), lbfgs.reason(), lbfgs.iterations(),
                          lbfgs.evaluations(), half->portions_of_replicas()};
}

// Where workers are on other hosts, those have no memory for it to take.
RestartMemory kept_by(const schedmp::Training& training, const CrewFlags& flags,
                      std::optional<int64_t> cap) {
  const std::optional<int64_t> host = host_memory(flags);
  std::vector<int64_t> taken;
  std::vector<int64_t> kept;
  for (const schedmp::WorkerFigures& each : training.workers()) {
    if (host) taken.push_back(each.proved_bytes + each.table_bytes);
    kept.push_back(each.kept_bytes);
  }
  return restart_memory(taken, kept, device_kinds(flags), cap, host);
}

std::optional<RunRecord::Kept> kept_of(const Outcome& outcome) {
  if (!outcome.kept) return std::nullopt;
  const std::vector<int64_t>& counted = outcome.driven.loop.kept_bytes;
  return RunRecord::Kept{outcome.kept->bytes / schedmp::kKeptFiles,
                         std::accumulate(counted.begin(), counted.end(), int64_t{0}),
                         outcome.kept->forbidden,
                         outcome.driven.loop.commits.taken,
                         outcome.driven.loop.commits.bytes,
                         outcome.driven.loop.commits.seconds};
}

std::optional<RunRecord::Checkpoints> checkpoints_of(const Outcome& outcome) {
  const schedmp::SnapshotCounts& counts = outcome.driven.loop.snapshots;
  const int64_t resumed = outcome.training->resumed_steps();
  if (counts.taken == 0 && counts.failed == 0 && resumed == 0 && counts.in_memory == 0)
    return std::nullopt;
  return RunRecord::Checkpoints{resumed,        counts.taken,          counts.failed,
                                counts.seconds, counts.in_memory,      counts.in_memory_seconds,
                                counts.bytes,   counts.in_memory_bytes};
}

std::vector<RunRecord::Route> routes_of(const Planned& planned, const Outcome& outcome) {
  std::vector<RunRecord::Route> routes;
  for (const partitioner::Route& route : planned.plan.routes) {
    const auto& figures = outcome.training->routes()[static_cast<size_t>(route.id)];
    routes.push_back({.value = partitioner::value_name(planned.model, route),
                      .gradient = route.gradient,
                      .from = planned.plan.binding[static_cast<size_t>(route.from)],
                      .to = planned.plan.binding[static_cast<size_t>(route.to)],
                      .predicted = {figures.predicted_messages, figures.predicted_bytes},
                      .counted = {figures.messages, figures.bytes}});
  }
  return routes;
}

}  // namespace

std::string_view to_string(RunKind kind) { return kind == RunKind::kTrain ? "train" : "evaluate"; }

schedmp::TrainingOptions options_of(RunKind kind, const Planned& planned) {
  schedmp::TrainingOptions options;
  options.model_source = planned.source;
  options.batch = planned.plan.batch;
  options.setting = planned.setting;
  options.memory = planned.memory;
  if (kind == RunKind::kTrain) return options;
  options.steps = 0;
  options.trace_steps = 0;
  return options;
}

schedmp::OpenSplits open_data(RunKind kind, const Planned& planned,
                              const schedmp::TrainingOptions& options) {
  const auto numbering = schedmp::numbering_of_weights(options.weights);
  const bool trains = kind == RunKind::kTrain;
  schedmp::OpenSplits data =
      schedmp::open_splits(training_factories().dataset, options.dataset,
                           {{}, &planned.model, numbering}, trains, options.evaluate);
  if (numbering || (trains && options.weights.empty())) return data;
  if (const std::string what = (trains ? data.train : data.test)->numbering().what; !what.empty())
    tell_notes({format(
        "{} by which {} its numbers were trained; {} are numbered as in {}",
        options.weights.empty() ? "the model does not say" : options.weights + " does not say",
        what, what, options.dataset)});
  return data;
}

Outcome run_training(RunKind kind, const Planned& planned, const schedmp::Schedule& schedule,
                     const schedmp::TrainingOptions& options, const schedmp::OpenSplits& data,
                     const CrewFlags& flags, Progress::Options how, const SnapshotsOf& snapshots_of,
                     const Watch& watch) {
  Outcome outcome;
  outcome.kind = kind;
  outcome.data = options.dataset;
  outcome.optimizer = optimizer_text(options);
  outcome.replicas = options.replicas;
  outcome.data_encrypted = flags.encrypt_data;
  outcome.same_bits = !schedule.any_weight_order && schedule.replicas == 1 &&
                      !schedule.updates_within() && options.replicas.count == 1;
  if (schedule.updates_within())
    for (const schedmp::StageVersions& each : schedmp::versions_of(schedule))
      outcome.staleness.push_back(each.staleness);
  std::unique_ptr<Progress> progress;
  schedmp::TrainingObserver observer;
  observer.step = [&](const schedmp::StepRecord& record) { progress->step(record); };
  observer.evaluation = [&](const schedmp::EvaluationRecord& record) {
    progress->evaluation(record);
  };
  std::optional<SlowWorkers> slow;
  if (watch.names_slow && SlowWorkers::can_tell(options))
    slow.emplace(planned.plan.workers_bound(), planned.plan.batch, options.trace_steps);
  observer.computed = [&](const schedmp::StepRecord& step, std::span<const int64_t> compute_ns) {
    if (watch.computed) watch.computed(*outcome.training, step, compute_ns);
    if (slow) tell_notes(slow->computed(step, compute_ns, runtime::now_ns()));
  };
  outcome.training = schedmp::make_training(training_factories(), planned.model, planned.plan,
                                            schedule, options, observer, data);
  schedmp::SnapshotOptions snapshots;
  if (snapshots_of) snapshots = snapshots_of(*outcome.training);
  if (!snapshots.folder.empty() || !snapshots.resume.empty())
    snapshots.run = outcome.training->told();
  std::vector<double> peaks;
  for (const schedmp::WorkerFigures& each : outcome.training->workers())
    peaks.push_back(static_cast<double>(each.proved_bytes + each.table_bytes));
  check_host_memory(flags, peaks, "use more --micro-batches, a smaller --batch or a smaller model");
  if (kind == RunKind::kTrain && !flags.no_restart) {
    outcome.kept = kept_by(*outcome.training, flags, options.memory);
    const bool keeps = outcome.kept->forbidden.empty();
    require(keeps || !flags.buddy_every || snapshots.memory, "--buddy-every",
            format("there is no room for what workers hold: {}; give more, or leave it out",
                   outcome.kept->forbidden));
    if (!keeps) tell_notes({kept_text(*outcome.kept, snapshots.memory != nullptr)});
  }
  if (const int64_t steps = outcome.training->total_steps(); options.rates.warm_up > steps)
    tell_notes({format("the warm-up takes {}, and the run has {}",
                       plural(options.rates.warm_up, "step"), steps)});
  how.total_steps = outcome.training->total_steps();
  how.epochs = options.epochs;
  progress = std::make_unique<Progress>(std::move(how));
  outcome.driven = drive(*outcome.training, flags,
                         {.workers = outcome.training->count_workers(),
                          .programs = program_factories(),
                          .longest_action_seconds = longest_action_seconds(planned.plan),
                          .are_here =
                              [&](const auto& workers, double waited_seconds) {
                                if (watch.are_here) watch.are_here(workers, waited_seconds);
                                if (slow) slow->are_here(workers);
                              }},
                         *progress,
                         {.snapshots = snapshots,
                          .restarts = {.keeps = !outcome.kept || outcome.kept->forbidden.empty(),
                                       .counts_steps = kind == RunKind::kTrain},
                          .leaves = watch.leaves});
  outcome.rows_per_second = progress->rows_per_second();
  outcome.median_step_seconds = progress->median_step_seconds();
  if (slow) outcome.slow = slow->seen();
  return outcome;
}

RunRecord record_of(const Planned& planned, const Outcome& outcome) {
  RunRecord record;
  record.kind = to_string(outcome.kind);
  record.data = outcome.data;
  record.plan = record_of(planned.model, planned.plan);
  record.asked = asked_of(planned.plan);
  for (const auto& step : outcome.training->steps()) {
    record.losses.push_back(if_finite(step.loss));
    record.gradient_norms.push_back(if_finite(step.gradient_norm));
    record.learning_rates.push_back(step.learning_rate);
    if (!step.skipped.empty()) record.skipped.push_back({step.step, step.skipped});
  }
  const bool trained = !outcome.training->steps().empty();
  for (const auto& one : outcome.training->evaluations())
    record.evaluations.push_back({trained ? one.after_epoch + 1 : 0, one.rows, one.correct,
                                  if_finite(one.loss), one.labels_per_row, one.in_top, one.kept,
                                  one.of_classes, one.label_axes});
  if (outcome.kind == RunKind::kTrain) record.optimizer = outcome.optimizer;
  if (outcome.kind == RunKind::kTrain) record.same_bits = outcome.same_bits;
  if (outcome.kind == RunKind::kTrain) record.staleness = outcome.staleness;
  if (outcome.replicas.count > 1) record.replicas = replicas_of(outcome);
  record.lbfgs = lbfgs_of(*outcome.training);
  record.checkpoints = checkpoints_of(outcome);
  record.kept = kept_of(outcome);
  record.labels_per_row = outcome.training->labels_per_row();
  record.label_axes = outcome.training->label_axes();
  record.seconds = outcome.driven.loop.seconds;
  record.rows_per_second = if_known(outcome.rows_per_second);
  record.median_step_seconds = if_known(outcome.median_step_seconds);
  record.workers = workers_of(planned, outcome);
  const runtime::ControlCounters& control = outcome.driven.control;
  record.control = {.sent = control.sent,
                    .received = control.received,
                    .resent = control.resent,
                    .dropped = control.dropped,
                    .fenced = control.fenced,
                    .refused = control.refused};
  record.data_encrypted = outcome.data_encrypted;
  record.slow = outcome.slow;
  record.restarts = outcome.driven.loop.restarts;
  record.repeated_tasks = outcome.driven.loop.repeated_tasks;
  record.repeated_messages = outcome.training->repeated().messages;
  record.repeated_bytes = outcome.training->repeated().bytes;
  record.recoveries = recoveries_of(outcome.driven.loop);
  record.routes = routes_of(planned, outcome);
  return record;
}

std::vector<double> batch_seconds(const Outcome& outcome) {
  std::vector<double> seconds;
  for (const auto& workers : outcome.training->evaluation_times()) {
    int64_t begin = INT64_MAX;
    int64_t end = INT64_MIN;
    for (size_t worker = 0; worker < workers.size(); ++worker) {
      const int64_t offset = outcome.driven.crew[worker].clock_offset_ns;
      begin = std::min(begin, workers[worker].begin_ns + offset);
      end = std::max(end, workers[worker].end_ns + offset);
    }
    seconds.push_back(static_cast<double>(end - begin) * 1e-9);
  }
  return seconds;
}

std::vector<runtime::WorkerTrace> traces_of(const Outcome& outcome) {
  auto spans = outcome.training->take_spans();
  std::vector<runtime::WorkerTrace> traces;
  for (size_t worker = 0; worker < spans.size(); ++worker) {
    const runtime::WorkerInfo& info = outcome.driven.crew[worker];
    runtime::shift(spans[worker], info.clock_offset_ns);
    traces.push_back({static_cast<int32_t>(worker),
                      format("worker {} (pid {}, {})", worker, info.pid, info.device),
                      std::move(spans[worker])});
  }
  return traces;
}

std::optional<runtime::WorkerTrace> scheduler_trace_of(const Outcome& outcome) {
  const schedmp::LoopReport& loop = outcome.driven.loop;
  if (loop.spans.empty()) return std::nullopt;
  return runtime::WorkerTrace{static_cast<int32_t>(outcome.driven.crew.size()), "scheduler",
                              loop.spans};
}

}  // namespace kerf::apps
