#include "schedmp/training/training.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "schedmp/state.h"
#include "schedmp/training/lanes.h"
#include "schedmp/training/replica_tasks.h"
#include "schedmp/training/training_state.h"

namespace kerf::schedmp {

namespace {

// Rounds that a replica may be ahead of another that nothing else holds up.
constexpr int kMostAhead = 256;

}  // namespace

using partitioner::Model;
using partitioner::Plan;

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
          half.table_of_part,
          half.options.lbfgs ? half.options.lbfgs->history : 0};
}

LaneTable Training::lanes(int workers) const {
  const State& half = *state_;
  KERF_CHECK(workers == count_workers(), "the run is of {} workers", count_workers());
  return lanes_of_replicas(size_lanes(half.model, half.plan,
                                      credits_of(half.proof.verdict(), half.options.setting.slots)),
                           half.options.replicas.count);
}

std::vector<std::filesystem::path> Training::folders() const {
  std::vector<std::filesystem::path> all{state_->options.shards, state_->options.results};
  std::erase(all, std::filesystem::path());
  return all;
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

Training::Decision Training::schedule(int64_t round) {
  if (state_->rounds.waits()) return Wait{};
  const std::optional<TrainingTask> task = state_->rounds.next();
  if (!task) return Done{};
  state_->last_round = round;
  state_->last_ramps = task->ramps;
  state_->under_way.push_back(*task);
  return state_->tasks_of(*task);
}

void Training::aggregate(int64_t /*round*/, std::vector<Result> results) {
  const TrainingTask task = state_->under_way.front();
  state_->under_way.pop_front();
  state_->fold(task, std::move(results));
}

void Training::compare(int64_t /*round*/, const Result& first, const Result& again) {
  for (const RouteCount& sent : again.payload.sent) {
    state_->repeated.messages += sent.messages;
    state_->repeated.bytes += sent.bytes;
  }
  if (!state_->repeats_bits()) return;
  const auto bits_of = [](const TrainingResult& result) {
    return std::tuple(std::bit_cast<uint64_t>(result.loss), result.correct,
                      std::bit_cast<uint64_t>(result.squared_norm));
  };
  if (bits_of(first.payload) == bits_of(again.payload)) return;
  throw Error(ErrorCode::kInternal,
              kerf::format("what it did before the loss of a worker came to the loss {} and a "
                           "squared norm of gradients of {}, and done again to {} and {}",
                           first.payload.loss, first.payload.squared_norm, again.payload.loss,
                           again.payload.squared_norm),
              kerf::format("worker {}", first.worker));
}

// A pipeline that goes on has begun the next step in the last. Best weights that are not saved yet
// are those of no snapshot.
bool Training::rests_before(int64_t round) const {
  if (state_->rounds.keeps_next()) return false;
  if (!state_->schedule.endless()) return true;
  return round == state_->last_round ? state_->last_ramps.fills : state_->last_ramps.drains;
}

int64_t Training::progress(int64_t /*next_round*/) const { return state_->rounds.begun_steps(); }

std::string Training::snapshot() { return state_of(*state_); }

void Training::restore(std::string_view snapshot) {
  take_state(*state_, snapshot);
  state_->check_restored();
  state_->resumed_steps = std::ssize(state_->steps);
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
const partitioner::Traffic& Training::repeated() const { return state_->repeated; }
const Numbering& Training::numbering() const { return state_->numbering; }
int64_t Training::labels_per_row() const { return state_->labels_per_row(); }
int Training::label_axes() const { return state_->label_axes(); }
int64_t Training::resumed_steps() const { return state_->resumed_steps; }
int64_t Training::total_steps() const { return state_->rounds.total_steps(); }
const Verdict& Training::verdict() const { return state_->proof.verdict(); }
int64_t Training::drain_period() const { return state_->rounds.drain_period(); }

const std::vector<std::vector<runtime::Span>>& Training::spans() const { return state_->spans; }

std::vector<std::vector<runtime::Span>> Training::take_spans() {
  return std::exchange(state_->spans,
                       std::vector<std::vector<runtime::Span>>(state_->workers.size()));
}

}  // namespace kerf::schedmp
