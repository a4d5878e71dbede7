#include "tests/schedmp/executor_crew.h"

#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "ops/arithmetic.h"
#include "ops/random.h"
#include "runtime/error.h"
#include "schedmp/interpreter.h"
#include "schedmp/schedules.h"
#include "schedmp/training/executor.h"
#include "schedmp/training/lanes.h"
#include "schedmp/training/shards.h"
#include "schedmp/training/training.h"
#include "tests/partitioner/step_data.h"
#include "tests/support/async_device.h"
#include "tests/support/temporary_folder.h"

namespace kerf::tests {
namespace {

using partitioner::Model;
using partitioner::Plan;
using schedmp::Executor;
using schedmp::Schedule;

// Rows of any shape and type: an element follows from its row and its place there.
class AnyRows final : public schedmp::FeatureRows {
 public:
  AnyRows(bool normal, std::function<void()> reading)
      : normal_(normal), reading_(std::move(reading)) {}
  int64_t rows() const override { return 64; }
  int64_t features() const override { return 0; }
  int64_t classes() const override { return 3; }
  std::string fingerprint() const override { return "any"; }
  void read_features(std::span<const int64_t> rows, const ops::TensorView& to) const override {
    if (reading_) reading_();
    const int64_t width = to.elements() / std::max<int64_t>(std::ssize(rows), 1);
    for (size_t i = 0; i < rows.size(); ++i)
      for (int64_t j = 0; j < width; ++j) {
        const int64_t at = static_cast<int64_t>(i) * width + j;
        const int64_t number = rows[i] * width + j;
        if (to.dtype == ops::DType::kInt64)
          to.i64()[at] = number % 3;
        else
          to.f32()[at] = normal_ ? ops::normal({3, static_cast<uint32_t>(width), 0, 0}, number)
                                 : partitioner::small_number(static_cast<uint32_t>(width), number);
      }
  }
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override {
    read_features(rows, to);
  }

 private:
  bool normal_;
  std::function<void()> reading_;
};

class Crew {
 public:
  Crew(const Model& model, const Plan& plan, const Schedule& schedule,
       const std::vector<int32_t>& credits, const StepOptions& options)
      : model_(model),
        plan_(plan),
        schedule_(schedule),
        credits_(credits),
        options_(options),
        world_(options.world),
        dropped_(options.dropped),
        lanes_(schedmp::size_lanes(model, plan, credits)) {
    std::filesystem::create_directories(shards_);
    const auto hub = runtime::make_inproc_hub();
    for (int worker = 0; worker < plan.workers_bound(); ++worker) {
      devices_.push_back(make_device());
      endpoints_.push_back(runtime::make_endpoint(
          options.transport, kerf::format("worker {}", worker), devices_.back(), hub));
    }
  }

  CrewStep run(const std::filesystem::path& weights) {
    CrewStep step;
    step.traffic.resize(plan_.routes.size());
    step.peak_bytes.resize(endpoints_.size());
    step.waits.resize(endpoints_.size());
    step.spans.resize(endpoints_.size());
    {
      std::vector<std::jthread> workers;
      for (int worker = 0; worker < plan_.workers_bound(); ++worker)
        workers.emplace_back([&, worker] { guard([&] { work(worker, weights, step); }); });
    }
    for (const Clock& clock : seen_) world_->see(clock);
    if (failure_) std::rethrow_exception(failure_);
    const auto file = folder_ / "all.safetensors";
    schedmp::join_weights(model_, plan_, shards_, file);
    step.weights = schedmp::read_safetensors(file);
    return step;
  }

 private:
  std::shared_ptr<runtime::Device> make_device() const {
    if (!world_) return runtime::make_device(options_.device);
    return make_async_device(world_, {.begin_thread = [] { ops::use_threads(1); }});
  }

  // Nobody waits for one that failed.
  template <class Body>
  void guard(const Body& body) {
    try {
      body();
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      for (const auto& endpoint : endpoints_) endpoint->interrupt();
    }
  }

  runtime::Wiring wiring_of(int worker) const {
    runtime::Wiring wiring;
    wiring.self = worker;
    wiring.token = 1;
    for (int peer = 0; peer < plan_.workers_bound(); ++peer) {
      if (peer == worker) continue;
      const auto self = static_cast<size_t>(worker);
      const auto other = static_cast<size_t>(peer);
      wiring.addresses[peer] = endpoints_[other]->address();
      wiring.send[peer] = lanes_[self][other];
      wiring.receive[peer] = lanes_[other][self];
    }
    return wiring;
  }

  void work(int worker, const std::filesystem::path& weights, CrewStep& step) {
    const auto self = static_cast<size_t>(worker);
    ops::use_threads(1);
    runtime::Device& device = *devices_[self];
    const auto stream = device.make_stream();
    runtime::Activity activity;
    runtime::Trace trace;
    runtime::LocalStore store;
    trace.enable(options_.trace);
    std::function<void()> reading;
    if (options_.reading) reading = [&] { options_.reading(activity.report()); };
    const AnyRows data(options_.normal, std::move(reading));
    runtime::Endpoint& endpoint = *endpoints_[self];
    endpoint.open(wiring_of(worker), runtime::Clock::now() + std::chrono::seconds(20));
    runtime::Workplace workplace{
        worker, plan_.workers_bound(), 1 /* thread */, device, *stream, endpoint, activity, trace,
        store};
    std::vector<int64_t> rows(static_cast<size_t>(plan_.batch));
    std::iota(rows.begin(), rows.end(), 0);
    const Schedule forwards =
        schedmp::forward_only(pipeline_of(model_, plan_), schedule_.micro_batches);
    ops::OptimizerOptions optimizer;
    optimizer.learning_rate = 0.5;
    const auto lowered = [&](bool gradients) {
      partitioner::LowerOptions lowering = schedmp::lowering_for(schedule_);
      lowering.gradients = gradients;
      lowering.devices = {device.kind()};
      lowering.in_parallel = false;
      return lower(model_, plan_, lowering);
    };
    Executor executor(model_, plan_, schedmp::Work{lowered(true), schedule_},
                      schedmp::Work{lowered(false), forwards}, credits_, workplace, optimizer, 1);
    executor.parameters().load(weights);
    const size_t first_wait = world_ ? world_->my_waits() : 0;
    const bool drops = dropped_ && dropped_->worker == worker;
    if (drops) world_->drop_my_wait(first_wait + dropped_->wait);
    const auto& result = executor.run({&data, rows, {}, 0, 0, true});
    if (world_) {
      world_->host_reads(executor.report().data(), executor.report().size_bytes());
      step.waits[self] = world_->my_waits() - first_wait;
    }
    if (drops)
      step.dropped_needless = dropped_->wait >= step.waits[self] ||
                              world_->my_wait_was_needless(first_wait + dropped_->wait);
    if (!endpoint.drain(runtime::Clock::now() + std::chrono::seconds(20)))
      throw Error(ErrorCode::kTimeout, "messages are left untaken");
    const std::scoped_lock lock(mutex_);
    if (result.has_loss) {
      step.loss += result.loss;
      step.reporter = worker;
    }
    for (const schedmp::RouteCount& sent : result.sent)
      step.traffic[static_cast<size_t>(sent.route)] = {sent.messages, sent.bytes};
    step.peak_bytes[self] = result.peak_bytes;
    step.spans[self] = trace.take();
    const std::vector<int> parts = executor.part_numbers();
    for (size_t part = 0; part < parts.size(); ++part)
      executor.parameters().save(part, parts[part], plan_.layouts,
                                 workplace.store.create(schedmp::shard_file(shards_, parts[part])));
    if (world_) seen_.push_back(world_->seen());
  }

  const Model& model_;
  const Plan& plan_;
  const Schedule& schedule_;
  const std::vector<int32_t>& credits_;
  const StepOptions& options_;
  const std::shared_ptr<AsyncWorld> world_;
  const std::optional<DroppedWait> dropped_;
  std::vector<Clock> seen_;  // by workers that are through
  const schedmp::LaneTable lanes_;
  std::vector<std::shared_ptr<runtime::Device>> devices_;
  std::vector<std::unique_ptr<runtime::Endpoint>> endpoints_;
  TemporaryFolder folder_;
  const std::filesystem::path shards_ = folder_ / "shards";
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

CrewStep run_crew(const Model& model, const Plan& plan, const Schedule& schedule,
                  const schedmp::Verdict& verdict, const partitioner::Setting& setting,
                  const std::filesystem::path& weights, const StepOptions& options) {
  const std::vector<int32_t> credits = schedmp::credits_of(verdict, setting.slots);
  return Crew(model, plan, schedule, credits, options).run(weights);
}

}  // namespace kerf::tests
