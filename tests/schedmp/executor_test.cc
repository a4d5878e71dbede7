// The executor's memory: one arena, every region of it used and nothing beside it, and no
// allocation once a step is like the one before.
#include "schedmp/training/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "ops/arithmetic.h"
#include "partitioner/builder.h"
#include "partitioner/channels_last.h"
#include "partitioner/cut.h"
#include "partitioner/zoo.h"
#include "runtime/error.h"
#include "runtime/store.h"
#include "schedmp/schedules.h"
#include "schedmp/training/lanes.h"
#include "tests/support/allocation_meter.h"
#include "tests/support/errors.h"
#include "tests/support/random_dataset.h"
#include "tests/support/temporary_folder.h"

namespace kerf::schedmp {
namespace {

using partitioner::Builder;
using partitioner::Model;
using partitioner::Plan;
using partitioner::RegionKind;
using partitioner::ValueId;

// A CPU whose buffers lie between guards.
class GuardedDevice final : public runtime::Device {
 public:
  static constexpr size_t kGuard = 4096;
  static constexpr std::byte kPattern{0xa5};

  runtime::DeviceKind kind() const override { return cpu_->kind(); }
  std::string name() const override { return cpu_->name(); }
  std::string description() const override { return cpu_->description(); }
  runtime::Buffer allocate(size_t bytes) override {
    if (bytes == 0) return {};
    runtime::Buffer behind = cpu_->allocate(bytes + 2 * kGuard);
    std::memset(behind.data(), static_cast<int>(kPattern), behind.bytes());
    std::byte* data = behind.data() + kGuard;
    buffers_.push_back(std::move(behind));
    return {this, data, bytes};
  }
  runtime::PinnedMemory allocate_pinned(size_t bytes) override {
    return cpu_->allocate_pinned(bytes);
  }
  std::unique_ptr<runtime::Stream> make_stream() override { return cpu_->make_stream(); }
  std::unique_ptr<runtime::Event> make_event() override { return cpu_->make_event(); }
  std::unique_ptr<runtime::Timeline> make_timeline(runtime::Stream& stream) override {
    return cpu_->make_timeline(stream);
  }
  runtime::MemoryStats memory() const override { return cpu_->memory(); }
  void reset_peak() override { cpu_->reset_peak(); }
  void cap_memory(size_t bytes) override { cpu_->cap_memory(bytes); }

  size_t buffers() const { return buffers_.size(); }
  bool guards_are_whole() const {
    return std::all_of(buffers_.begin(), buffers_.end(), [](const runtime::Buffer& buffer) {
      const auto whole = [](const std::byte* from) {
        return std::all_of(from, from + kGuard, [](std::byte b) { return b == kPattern; });
      };
      return whole(buffer.data()) && whole(buffer.data() + buffer.bytes() - kGuard);
    });
  }

 protected:
  void release(void*, size_t) noexcept override {}  // they live as long as the device

 private:
  std::unique_ptr<runtime::Device> cpu_ = runtime::make_cpu_device();
  std::vector<runtime::Buffer> buffers_;
};

// One worker that holds all of a plan.
class Alone {
 public:
  Alone(Model model, int stages, const Schedule& schedule, int64_t batch = 21,
        const std::vector<int64_t>& given_sizes = {})
      : model_(std::move(model)),
        data_(200, features(model_), 5),
        stream_(device_->make_stream()),
        endpoint_(runtime::make_endpoint(runtime::TransportKind::kInproc, "alone", device_,
                                         runtime::make_inproc_hub())),
        workplace_{0, 1, 1 /* thread */, *device_, *stream_, *endpoint_, activity_, trace_, store_},
        rows_(static_cast<size_t>(batch)) {
    ops::use_threads(1);
    partitioner::PlanRequest request;
    request.workers = stages;
    request.placement.assign(static_cast<size_t>(stages), 0);
    request.batch = batch;
    request.micro_batches = schedule.micro_batches;
    request.given_sizes = given_sizes;
    plan_ = std::get<Plan>(partitioner::make_plan(model_, request, *in_flight_of(schedule)));
    partitioner::LowerOptions lowering = lowering_for(schedule);
    lowering.in_parallel = false;
    const auto parts = partitioner::lower(model_, plan_, lowering);
    const Verdict verdict = verify(model_, plan_, parts, schedule, {.slots = 1});
    KERF_CHECK(verdict.ok(), "{}", fmt::join(verdict.problems, "; "));
    ops::OptimizerOptions optimizer;
    optimizer.momentum = 0.9;
    executor_ = std::make_unique<Executor>(
        model_, plan_, Work{parts, schedule},
        Work{partitioner::lower(model_, plan_, {.gradients = false}),
             forward_only(pipeline_of(model_, plan_), schedule.micro_batches)},
        credits_of(verdict, 1), workplace_, optimizer, 1);
    std::iota(rows_.begin(), rows_.end(), 0);
  }

  double step(bool training = true, const Ramps& ramps = {}) {
    const StepData data{&data_, rows_, rows_, steps_, steps_, training, 0.01, ramps};
    ++steps_;
    return executor_->run(data).loss;
  }
  Executor& executor() { return *executor_; }
  const GuardedDevice& device() const { return *device_; }
  const std::vector<ops::Layout>& layouts() const { return plan_.layouts; }
  int64_t progress() const { return activity_.report().progress; }

 private:
  static int64_t features(const Model& model) {
    for (ValueId id = 0; id < model.values(); ++id)
      if (model.value(id).role == ops::Role::kInput)
        return model.value(id).spec.shape.elements_per_sample();
    return 0;
  }

  Model model_;
  Plan plan_;
  std::shared_ptr<GuardedDevice> device_ = std::make_shared<GuardedDevice>();
  tests::RandomDataset data_;
  std::unique_ptr<runtime::Stream> stream_;
  std::unique_ptr<runtime::Endpoint> endpoint_;
  runtime::Activity activity_;
  runtime::Trace trace_;
  runtime::LocalStore store_;
  runtime::Workplace workplace_;
  std::vector<int64_t> rows_;
  std::unique_ptr<Executor> executor_;
  int64_t steps_ = 0;
};

Schedule schedule_of(const std::string& text) {
  return parse_schedule("kerf-schedule 1\nname x\nworkers 1\n" + text, "test");
}

const char* const kAtOnce = "micro-batches 1\nstage 0 on 0\nrow 0: 0F0 0B0 0U\n";
const char* const kAtOnceApart = "micro-batches 1\nstage 0 on 0\nrow 0: 0F0 0I0 0W0 0U\n";
const char* const kTogether = "micro-batches 3\nstage 0 on 0\nrow 0: 0F0 0F1 0B0 0F2 0B1 0B2 0U\n";
const char* const kApart =
    "micro-batches 3\nstage 0 on 0\nrow 0: 0F0 0F1 0I0 0I1 0F2 0W0 0I2 0W1 0W2 0U\n";
const char* const kTwoStages =
    "micro-batches 3\nstage 0 on 0\nstage 1 on 0\n"
    "row 0: 0F0 0F1 1F0 1F1 1B0 0B0 0F2 1F2 1I1 0B1 1W1 1B2 0I2 0W2 0U 1U\n";
// Each with its stages.
const std::pair<const char*, int> kRows[] = {
    {kAtOnce, 1}, {kAtOnceApart, 1}, {kTogether, 1}, {kApart, 1}, {kTwoStages, 2}};

// Element-wise operators and pooling only, whose kernels allocate nothing: whatever this thread
// allocates is the executor's.
Model without_parameters() {
  Builder b("without");
  const ValueId x = b.input("x", {ops::kBatch, 1, 12, 12});
  const ValueId a = b.relu(x, "relu1");
  const ValueId c = b.max_pool(b.add(b.relu(a, "relu2"), a, "sum"), 2, 2, "pool");
  b.loss(b.flatten(c, "flatten"));
  return b.build();
}

// What is read ahead of a step: of one worker all of its rows, of any step.
TEST(Executor, ReadsEveryRowOfAStep) {
  const Model model = partitioner::make_zoo_model("mlp", {{24, 16, 5}});
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{}, {4, 12, 5}}) {
    Alone alone(model, 1, schedule_of(kTogether), 21, sizes);
    for (const int64_t rows : {21, 10, 2, 0}) {
      std::vector<size_t> all(static_cast<size_t>(rows));
      std::iota(all.begin(), all.end(), size_t{0});
      EXPECT_EQ(alone.executor().places_read(rows), all);
    }
  }
}

// Who writes gigabytes of weights before the first step takes longer than a worker may be silent.
TEST(Executor, GetsOnWithEachTensorThatItBeginsAndWrites) {
  const Model model = partitioner::make_zoo_model("mlp", {{24, 16, 5}});
  Alone alone(model, 1, schedule_of(kTogether));
  const int64_t begun = alone.progress();
  EXPECT_GE(begun, 4) << "two layers, each with weights and a bias";
  const tests::TemporaryFolder folder;
  runtime::LocalStore store;
  int written = 0;
  alone.executor().parameters().save(0, 0, alone.layouts(), store.create(folder / "w.safetensors"),
                                     [&] { ++written; });
  EXPECT_GE(written, 4);
}

// Of gradients together or apart, though parts were lowered for both.
TEST(Executor, KeepsTheListsThatItsRowsRun) {
  const Model model = partitioner::make_zoo_model("mlp", {{24, 16, 5}});
  for (const char* text : {kTogether, kApart}) {
    const bool apart = text == kApart;
    Alone alone(model, 1, schedule_of(text));
    const partitioner::Part& part = alone.executor().interpreter().part(0);
    for (const auto* list : {&part.input_gradient, &part.weight_gradient})
      EXPECT_NE(list->instructions.empty(), apart) << text;
    EXPECT_EQ(part.backward.instructions.empty(), apart) << text;
    EXPECT_FALSE(part.forward.instructions.empty()) << text;
    EXPECT_FALSE(part.update.instructions.empty()) << text;
  }
}

// A step of one micro-batch has all but what is handed in one region, from its first block to its
// last, and gradients of parameters in it.
TEST(Executor, UsesAllOfTheRegionOfASinglePassAndNothingBesideIt) {
  const Model model = partitioner::make_zoo_model("mlp", {{24, 48, 32, 40, 16, 5}});
  for (const char* text : {kAtOnce, kAtOnceApart}) {
    Alone alone(model, 1, schedule_of(text));
    Executor& executor = alone.executor();
    const size_t buffers = alone.device().buffers();
    const std::span<std::byte> arena = executor.arena();
    std::fill(arena.begin(), arena.end(), GuardedDevice::kPattern);
    alone.step();
    EXPECT_TRUE(executor.interpreter().part(0).single_pass);
    const auto touched = [&](std::span<std::byte> block) {
      return !std::all_of(block.begin(), block.end(),
                          [](std::byte b) { return b == GuardedDevice::kPattern; });
    };
    EXPECT_TRUE(touched(arena.first(64))) << text;
    EXPECT_TRUE(touched(arena.last(64))) << text;
    EXPECT_TRUE(alone.device().guards_are_whole()) << text;
    EXPECT_EQ(alone.device().buffers(), buffers) << text;
  }
}

TEST(Executor, UsesTheLastBlockOfEveryRegionAndNothingBesideThem) {
  const Model model = partitioner::make_zoo_model("mlp", {{24, 48, 32, 40, 16, 5}});
  for (const auto& [text, stages] : {std::pair(kTogether, 1), {kApart, 1}, {kTwoStages, 2}}) {
    Alone alone(model, stages, schedule_of(text));
    Executor& executor = alone.executor();
    const std::string_view row = text;
    const size_t buffers = alone.device().buffers();
    const std::span<std::byte> arena = executor.arena();
    std::fill(arena.begin(), arena.end(), GuardedDevice::kPattern);
    alone.step();
    const Interpreter& interpreter = executor.interpreter();
    const ArenaPlan& plan = executor.arena_plan();
    EXPECT_EQ(static_cast<int64_t>(arena.size()), plan.bytes());
    const auto expect_touched = [&](int64_t end) {
      const auto last = arena.subspan(static_cast<size_t>(end - 64), 64);
      EXPECT_FALSE(std::all_of(last.begin(), last.end(),
                               [](std::byte b) { return b == GuardedDevice::kPattern; }))
          << row << ": the block before " << end << " of " << plan.bytes();
    };
    int instances = 0;
    for (size_t p = 0; p < interpreter.parts(); ++p)
      for (const RegionKind region :
           {RegionKind::kKept, RegionKind::kKeptForWeights, RegionKind::kHanded}) {
        const int count = interpreter.needs()[p].instances[static_cast<size_t>(region)];
        for (int i = 0; i < count; ++i, ++instances) {
          SCOPED_TRACE(static_cast<int>(region));
          expect_touched(plan.start(interpreter.part(p), p, region, i + 1));
        }
      }
    EXPECT_GT(instances, 2) << "several of each";
    expect_touched(plan.bytes());  // the transient region's, at the end
    EXPECT_TRUE(alone.device().guards_are_whole());
    EXPECT_EQ(alone.device().buffers(), buffers) << "nothing was taken while it ran";
  }
}

TEST(Executor, WalksListsAndOwnLanesWithoutAllocating) {
  for (const auto& [text, stages] : kRows) {
    Alone alone(without_parameters(), stages, schedule_of(text));
    alone.step();
    alone.step(false);
    alone.step();
    const size_t before = tests::allocated_bytes();
    for (int step = 0; step < 3; ++step) {
      alone.step();
      alone.step(false);
    }
    EXPECT_EQ(tests::allocated_bytes() - before, 0u);
  }
}

TEST(Executor, TrainsWithoutAllocating) {
  for (const char* name : {"mlp", "lenet5", "lenet5-bn"})
    for (const auto& [text, stages] : kRows) {
      Alone alone(partitioner::channels_last(partitioner::make_zoo_model(name)), stages,
                  schedule_of(text));
      for (int step = 0; step < 3; ++step) alone.step();
      const size_t before = tests::allocated_bytes();
      for (int step = 0; step < 3; ++step) alone.step();
      EXPECT_EQ(tests::allocated_bytes() - before, 0u) << name << text;
    }
}

// The first stage is ahead, versions are kept, and the pipeline goes on from step to step.
TEST(Executor, GoesOnWithoutAllocating) {
  const char* const text =
      "micro-batches 2\nstage 0 on 0\nstage 1 on 0\nprologue 0: 0F0\n"
      "steady 0: 0F1 1F0 1B0 1U0 0B0 0U0 0F2 1F1 1B1 1U1 0B1 0U1\n";
  for (const char* name : {"mlp", "lenet5-bn"}) {
    Alone alone(partitioner::channels_last(partitioner::make_zoo_model(name)), 2,
                schedule_of(text));
    alone.step(true, {.fills = true, .drains = false});
    for (int step = 0; step < 3; ++step) alone.step(true, {.fills = false, .drains = false});
    const size_t before = tests::allocated_bytes();
    for (int step = 0; step < 3; ++step) alone.step(true, {.fills = false, .drains = false});
    EXPECT_EQ(tests::allocated_bytes() - before, 0u) << name;
    alone.step(true, {.fills = false, .drains = true});
  }
}

TEST(Executor, TrainsMicroBatchesThatVaryWithoutAllocating) {
  for (const char* name : {"mlp", "lenet5-bn"}) {
    Alone alone(partitioner::channels_last(partitioner::make_zoo_model(name)), 1,
                schedule_of(kTogether), 21, {4, 12, 5});
    for (int step = 0; step < 3; ++step) alone.step();
    const size_t before = tests::allocated_bytes();
    for (int step = 0; step < 3; ++step) alone.step();
    EXPECT_EQ(tests::allocated_bytes() - before, 0u) << name;
  }
}

// The number of a bad row is the step's, not its micro-batch's.
class BadLabels final : public FeatureRows {
 public:
  int64_t rows() const override { return 30; }
  int64_t features() const override { return 6; }
  int64_t classes() const override { return 5; }
  std::string fingerprint() const override { return "bad"; }
  void read_features(std::span<const int64_t>, const ops::TensorView& to) const override {
    std::fill_n(to.f32(), to.elements(), 0.0F);
  }
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override {
    for (size_t i = 0; i < rows.size(); ++i) to.i64()[i] = rows[i] == 17 ? 99 : 0;
  }
};

TEST(Executor, CountsRowsThroughTheStep) {
  Alone alone(partitioner::make_zoo_model("mlp", {{6, 5}}), 1, schedule_of(kTogether));
  const BadLabels bad;
  std::vector<int64_t> rows(21);
  std::iota(rows.begin(), rows.end(), 0);
  const auto error = kerf::tests::error_of([&] {
    alone.executor().run({&bad, rows, {}, 0, 0, true});
  });
  ASSERT_TRUE(error) << "a label beyond the classes was accepted";
  EXPECT_NE(std::string(error->what()).find("17"), std::string::npos) << error->what();
}

}  // namespace
}  // namespace kerf::schedmp
