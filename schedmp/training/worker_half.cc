#include "schedmp/training/worker_half.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <numeric>
#include <utility>

#include "ops/arithmetic.h"
#include "partitioner/rewrite.h"
#include "runtime/error.h"
#include "runtime/time.h"
#include "schedmp/encoded_program.h"
#include "schedmp/schedules.h"
#include "schedmp/training/best_weights.h"
#include "schedmp/training/result_memory.h"
#include "schedmp/training/shards.h"
#include "schedmp/training/stored_slices.h"

namespace kerf::schedmp {

namespace {

// Takes replicas' seeds far apart.
constexpr uint64_t kOfReplica = 0x9e37'79b9'7f4a'7c15;

constexpr size_t kMuchTraced = runtime::Trace::kLimit / 4;

// Of the plan's numbers.
runtime::Workplace within_replica(const runtime::Workplace& crew, int first_worker) {
  runtime::Workplace workplace = crew;
  workplace.worker -= first_worker;
  workplace.first_worker = first_worker;
  return workplace;
}

// Once its parts are lowered, a run asks its plan for no more than layouts of what is kept from
// step to step, and its own messages. Of a deep network, divided, the rest is most of the plan. Nor
// does it ask for the model before its rewrites.
void forget_lowered(partitioner::Model& model, int worker, partitioner::Plan& plan) {
  model.set_original(nullptr, {});
  plan.division.nodes = std::vector<ops::Layout>();
  std::vector<ops::Layout> kept(plan.layouts.size());
  for (const partitioner::ValueId id : model.kept_values()) {
    const auto at = static_cast<size_t>(id);
    kept[at] = std::move(plan.layouts[at]);
  }
  plan.layouts = std::move(kept);
  for (partitioner::Route& route : plan.routes)
    if (plan.binding[static_cast<size_t>(route.from)] != worker &&
        plan.binding[static_cast<size_t>(route.to)] != worker)
      route.pieces = std::vector<partitioner::Piece>();
}

}  // namespace

TrainingWorker::TrainingWorker(const TrainingFactories& factories, runtime::Workplace& workplace,
                               const TrainingJob& job, Tables& tables)
    : workplace_(within_replica(workplace, job.first_worker)),
      job_(job),
      tables_(tables),
      results_(workplace.store, job.results),
      model_(
          partitioner::rewritten(factories.model(job.model_source),
                                 partitioner::rewrites_of_plan(job.plan, "the plan in the job"))),
      plan_(partitioner::read_plan(model_, job.plan, "the plan in the job")),
      training_(parse_schedule(job.schedule, "the schedule in the job")) {
  ops::use_threads(workplace.threads);
  const auto work_of = [&](const Schedule& schedule) {
    partitioner::Setting setting;
    setting.threads = workplace.threads;
    setting.devices = {workplace.device.kind()};
    partitioner::LowerOptions options = lowering_for(schedule, setting);
    options.in_parallel = false;
    options.worker = workplace_.worker;
    return Work{partitioner::lower(model_, plan_, options), schedule};
  };
  Work evaluation = work_of(forward_only(pipeline_of(model_, plan_), training_.micro_batches));
  cap_memory(result_bytes(evaluation.parts, plan_, workplace_.worker));
  executor_ = std::make_unique<Executor>(
      model_, plan_, job.trains ? std::optional(work_of(training_)) : std::nullopt,
      std::move(evaluation), job.credits, workplace_,
      optimizer_of_worker(job.optimizer, job.replicas), job.seed);
  forget_lowered(model_, workplace_.worker, plan_);
  std::string().swap(job_.plan);
  if (workplace_.own_process) runtime::give_large_blocks_back();  // steps take none
  runtime::give_freed_memory_back();
  if (!job.weights.empty()) executor_->parameters().load(job.weights, alive());
  if (job.trains && (job.replicas.count > 1 || job.history > 0)) share_weights();
  if (executor_->reads_data()) open_data(factories);
}

// What was proved is all there is: a step beyond it fails where it happens.
void TrainingWorker::cap_memory(int64_t on_host) {
  const auto slots = static_cast<int64_t>(workplace_.endpoint.slot_bytes());
  if (slots > job_.memory)
    throw Error(ErrorCode::kProtocol,
                kerf::format("its slots take {} bytes and it was proved to take {} in all", slots,
                             job_.memory),
                kerf::format("worker {}", workplace_.in_crew(workplace_.worker)));
  workplace_.device.cap_memory(
      static_cast<size_t>(std::max<int64_t>(job_.memory - slots - on_host, 1)));
}

void TrainingWorker::share_weights() {
  if (job_.history > 0) {
    lbfgs_ = std::make_unique<LbfgsWeights>(model_, executor_->parts(), executor_->parameters(),
                                            executor_->bench(), tables_, job_.tables, job_.history,
                                            replica());
    return executor_->update_by(*lbfgs_);
  }
  shared_ = std::make_unique<SharedWeights>(model_, executor_->parts(), executor_->parameters(),
                                            executor_->bench(), tables_, job_.tables,
                                            job_.optimizer, job_.replicas, replica());
  executor_->update_by(*shared_);
  // Other rows, other numbers: replicas count theirs from 0 each.
  executor_->draw_by(job_.seed + static_cast<uint64_t>(replica()) * kOfReplica);
}

void TrainingWorker::open_data(const TrainingFactories& factories) {
  if (executor_->reads_inputs()) inputs_ = input_names(model_);
  workplace_.activity.doing("opening data set " + job_.dataset);
  const auto open = [&](Split split, const std::string& fingerprint) {
    auto data = factories.dataset(job_.dataset, split,
                                  {alive(), &model_, numbering_of_weights(job_.weights)});
    if (data->fingerprint() != fingerprint)
      throw Error(
          ErrorCode::kUsage,
          kerf::format("data set {} is not the same here as on the scheduler", job_.dataset),
          kerf::format("worker {}", workplace_.in_crew(workplace_.worker)));
    return data;
  };
  if (job_.opens_train) train_ = open(Split::kTrain, job_.train_fingerprint);
  if (job_.opens_test) test_ = open(Split::kTest, job_.test_fingerprint);
  train_ahead_ = load_ahead(train_);
  test_ahead_ = load_ahead(test_);
  prepare(train_.get());
}

std::shared_ptr<LoadingAhead> TrainingWorker::load_ahead(
    std::shared_ptr<const Dataset>& data) const {
  if (data == nullptr || !data->loads_ahead() || !executor_->reads_inputs()) return nullptr;
  auto ahead = std::make_shared<LoadingAhead>(data, model_);
  data = ahead;
  return ahead;
}

void TrainingWorker::expect_rows(const TrainingTask& task, std::span<const int64_t> rows,
                                 std::span<const int64_t> next) {
  if (train_ahead_ == nullptr && test_ahead_ == nullptr) return;
  const auto mine = [&](std::span<const int64_t> all) {
    std::vector<int64_t> some;
    for (const size_t place : executor_->places_read(std::ssize(all))) some.push_back(all[place]);
    return some;
  };
  const std::vector<int64_t> now = mine(rows);
  const std::vector<int64_t> later = mine(next);
  const auto if_of = [](bool split, std::span<const int64_t> some) {
    return split ? some : std::span<const int64_t>();
  };
  for (const auto& [ahead, trains] :
       {std::pair(train_ahead_.get(), true), std::pair(test_ahead_.get(), false)})
    if (ahead != nullptr)
      ahead->expect(if_of(is_step(task.kind) == trains, now),
                    if_of(is_step(task.next.kind) == trains, later));
}

void TrainingWorker::prepare(const Dataset* data) {
  if (data == nullptr) return;
  workplace_.activity.doing("loading data set " + job_.dataset);
  data->prepare(inputs_);
  workplace_.activity.progress();
}

std::span<const int64_t> TrainingWorker::numbers_of(const TaskRows& rows,
                                                    std::vector<int64_t>& numbers) {
  numbers.resize(static_cast<size_t>(rows.rows));
  std::iota(numbers.begin(), numbers.end(), rows.first);
  if (rows.rows == 0 || rows.kind != TaskKind::kTrain || !job_.shuffle || train_ == nullptr)
    return numbers;
  Order& order = orders_[rows.epoch % 2];
  if (order.epoch != rows.epoch)
    order = {rows.epoch, RowOrder(train_->rows(), job_.seed, rows.epoch)};
  for (int64_t& number : numbers) number = (*order.rows)[number];
  return numbers;
}

TrainingResult TrainingWorker::update(const TrainingTask& task) {
  TrainingResult result = result_of(task);
  if (task.trace) result.spans = workplace_.trace.take();
  for (runtime::Span& span : result.spans) span.step = task.step;
  return result;
}

const TrainingResult& TrainingWorker::result_of(const TrainingTask& task) {
  switch (task.kind) {
    case TaskKind::kSave:
      save();
      return other_result_ = {};
    case TaskKind::kPlace:
    case TaskKind::kCollect:
    case TaskKind::kVectors:
      return work_on_vectors(task);
    default:
      return run_step(task);
  }
}

void TrainingWorker::save() const {
  workplace_.activity.doing("saving weights");
  const std::vector<int> parts = executor_->part_numbers();
  for (size_t part = 0; part < parts.size(); ++part)
    executor_->parameters().save(part, parts[part], plan_.layouts,
                                 workplace_.store.create(shard_file(job_.shards, parts[part])),
                                 alive());
}

std::vector<StoredSlice> TrainingWorker::slices(Reach reach) {
  if (shared_) return shared_->slices(reach, plan_.layouts);
  if (lbfgs_) return lbfgs_->slices(reach, plan_.layouts);
  return executor_->parameters().slices(reach, plan_.layouts);
}

// Of several replicas the first saves weights.
void TrainingWorker::save_state(PieceWriter& to, Reach reach) {
  tables_.stand_still([&] {
    std::vector<StoredSlice> all = slices(reach);
    if (reach == Reach::kTogether && !job_.shards.empty() && replica() == 0)
      add_best_weights(model_, plan_, workplace_.store, job_.shards, executor_->part_numbers(),
                       all);
    write_slices(all, to);
  });
  runtime::give_freed_memory_back();  // what told of slices was many small pieces
}

void TrainingWorker::load_state(const std::vector<PlacedPart>& parts, const Alive& alive) {
  StoredSlices slices(workplace_.store, parts, alive);
  tables_.stand_still([&] {
    if (shared_) return shared_->load(slices);
    if (lbfgs_) return lbfgs_->load(slices);
    const auto as_it_is = [](const std::string& kind, const std::string&) { return kind; };
    executor_->parameters().load(slices, as_it_is);
  });
  if (slices.has(kBestWeights) && !job_.shards.empty() && replica() == 0)
    write_best_weights(slices, model_, plan_, executor_->part_numbers(), workplace_.store,
                       job_.shards);
}

const TrainingResult& TrainingWorker::work_on_vectors(const TrainingTask& task) {
  KERF_CHECK(lbfgs_ != nullptr, "vectors, and no L-BFGS");
  if (task.kind == TaskKind::kPlace) {
    workplace_.activity.doing("placing weights");
    const int64_t waited_ns = lbfgs_->place();
    TrainingResult& result = run_step(task);
    result.wait_ns += waited_ns;
    return result;
  }
  workplace_.activity.doing("working on vectors");
  TrainingResult& result = other_result_ = {};
  result.begin_ns = runtime::now_ns();
  if (task.kind == TaskKind::kCollect)
    result.wait_ns = lbfgs_->collect(task.rows);
  else
    result.sums = lbfgs_->run(task.work);
  result.end_ns = runtime::now_ns();
  result.compute_ns = result.end_ns - result.begin_ns - result.wait_ns;
  return result;
}

TrainingResult& TrainingWorker::run_step(const TrainingTask& task) {
  const bool training = is_step(task.kind);
  if (Order& other = orders_[(task.epoch + 1) % 2]; other.epoch < task.epoch) other = {};
  workplace_.trace.enable(task.trace);
  const StepData data{training ? train_.get() : test_.get(),
                      numbers_of({task.kind, task.epoch, task.first, task.rows}, rows_),
                      numbers_of(task.next, next_rows_),
                      task.sequence,
                      task.step,
                      training,
                      task.learning_rate,
                      task.ramps,
                      task.ramps.drains};
  prepare(data.dataset);
  expect_rows(task, data.rows, data.next);
  const int64_t begin = runtime::now_ns();
  TrainingResult& result = executor_->run(data);
  if (!job_.results.empty())
    for (const GivenResult& given : executor_->results()) results_.write(given, task.first);
  result.begin_ns = begin;
  result.end_ns = runtime::now_ns();
  // The first has kernels make what they keep, by way of much that they do not. A large trace is
  // made in pieces, and taken from here before the next step's.
  const bool traced_much = task.trace && workplace_.trace.bytes() >= kMuchTraced;
  if (std::exchange(leaves_much_, traced_much) || traced_much) runtime::give_freed_memory_back();
  measure_memory(task, result);
  if (shared_) result.staleness = shared_->take_staleness();
  return result;
}

// What is taken is taken before the first step, so a few looks do. Slots that both ends map count
// at the one that they are proved for.
void TrainingWorker::measure_memory(const TrainingTask& task, TrainingResult& result) const {
  result.resident_bytes = -1;
  if (workplace_.device.kind() != runtime::DeviceKind::kCpu) return;
  if (is_step(task.kind) && !std::has_single_bit(static_cast<uint64_t>(task.step) + 1)) return;
  result.data_bytes = 0;
  for (const Dataset* data : {train_.get(), test_.get()})
    if (data != nullptr) result.data_bytes += data->held_bytes();
  const runtime::ResidentMemory now = runtime::resident_memory();
  const auto slots = static_cast<int64_t>(workplace_.endpoint.slot_bytes());
  result.resident_bytes = now.anonymous - start_.anonymous - result.data_bytes +
                          std::min(now.shared - start_.shared, slots);
}

namespace {

class TrainingWorkerHalf final : public WorkerHalf<TrainingMessages>, private DividedState {
 public:
  explicit TrainingWorkerHalf(TrainingFactories factories) : factories_(std::move(factories)) {}
  void start(runtime::Workplace& workplace, const TrainingJob& job) override {
    worker_ = std::make_unique<TrainingWorker>(factories_, workplace, job, tables());
  }
  TrainingResult update(const TrainingTask& task) override { return worker_->update(task); }
  DividedState* divided_state() override { return this; }

 private:
  void save(PieceWriter& to, Reach reach) override { worker_->save_state(to, reach); }
  void load(const std::vector<PlacedPart>& parts, const Alive& alive) override {
    worker_->load_state(parts, alive);
  }

  TrainingFactories factories_;
  std::unique_ptr<TrainingWorker> worker_;
};

}  // namespace

std::unique_ptr<runtime::Handler> training_worker(const TrainingFactories& factories) {
  return handler_of<TrainingMessages>(std::make_unique<TrainingWorkerHalf>(factories));
}

}  // namespace kerf::schedmp
