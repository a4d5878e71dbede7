// A step that is not finite changes nothing that is kept, on any plan, and training goes on as if
// it had not been; what a step says of itself is what plain loops say.
#include "partitioner/step_vector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "partitioner/builder.h"
#include "partitioner/cut.h"
#include "runtime/error.h"
#include "schedmp/safetensors.h"
#include "schedmp/scheduler.h"
#include "schedmp/schedules.h"
#include "schedmp/training/training.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/random_dataset.h"

namespace kerf::schedmp {
namespace {

using partitioner::Builder;
using partitioner::Cut;
using partitioner::Model;
using partitioner::Plan;
using partitioner::ValueId;
using testing::HasSubstr;

constexpr int64_t kBatch = 10;
constexpr int kMicroBatches = 2;

// Rows 20 to 29, which are step 2, are there or not; row 25 of them is spoiled by `bad`.
class Rows final : public FeatureRows {
 public:
  Rows(bool with_step_2, float bad) : with_(with_step_2), bad_(bad) {}

  int64_t rows() const override { return with_ ? 60 : 50; }
  int64_t features() const override { return 12; }
  int64_t classes() const override { return 5; }
  std::string fingerprint() const override { return format("rows {} {}", with_, bad_); }
  void read_features(std::span<const int64_t> rows, const ops::TensorView& to) const override {
    random_.read_features(of(rows), to);
    for (size_t i = 0; i < rows.size(); ++i)
      if (of(rows)[i] == 25) std::fill_n(to.f32() + static_cast<int64_t>(i) * 12, 12, bad_);
  }
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override {
    random_.read_labels(of(rows), to);
  }

 private:
  std::vector<int64_t> of(std::span<const int64_t> rows) const {
    std::vector<int64_t> mine;
    for (const int64_t row : rows) mine.push_back(with_ || row < 20 ? row : row + 10);
    return mine;
  }

  const tests::RandomDataset random_{60, 12, 5};
  bool with_;
  float bad_;
};

Model chain() {
  Builder b("chain");
  ValueId x = b.input("x", {ops::kBatch, 12});
  for (const auto& [outputs, name] : {std::pair(24, "one"), {16, "two"}, {5, "three"}})
    x = b.gemm(std::string(name) == "one" ? x : b.relu(x), outputs, name);
  b.loss(x);
  return b.build();
}

// With running statistics.
Model normalised() {
  Model m("normalised");
  using Kind = ops::Initializer::Kind;
  const auto kept = [&](const std::string& name, const ops::Shape& shape, Kind kind,
                        ops::Role role = ops::Role::kParameter) {
    return m.add_parameter(name, {ops::DType::kFloat32, shape}, {kind, 0.5}, role);
  };
  const ValueId x = m.add_input("x", {ops::DType::kFloat32, {ops::kBatch, 12}});
  const ValueId label = m.add_label("label", {ops::DType::kInt64, {ops::kBatch}});
  const ValueId w = kept("one.weight", {8, 12}, Kind::kUniform);
  const ValueId h = m.node(m.add_node("one", "Gemm", {{"transB", 1}}, {x, w})).outputs[0];
  const std::vector<ValueId> inputs = {h, kept("scale", {8}, Kind::kOne),
                                       kept("shift", {8}, Kind::kZero),
                                       kept("mean", {8}, Kind::kZero, ops::Role::kState),
                                       kept("variance", {8}, Kind::kOne, ops::Role::kState)};
  const ValueId y =
      m.node(m.add_node("norm", "BatchNormalization", {{"training_mode", 1}}, inputs, 3))
          .outputs[0];
  const ValueId v = kept("two.weight", {5, 8}, Kind::kUniform);
  const ValueId z = m.node(m.add_node("two", "Gemm", {{"transB", 1}}, {y, v})).outputs[0];
  m.add_node("loss", "SoftmaxCrossEntropyLoss", {}, {z, label});
  return m;
}

Model make_model(const std::string& source) { return source == "chain" ? chain() : normalised(); }

struct Case {
  std::string source = "chain";
  Cut cut = Cut::kLayer;
  int workers = 1;
  std::string shares = {};
  std::string text = {};  // of a schedule
};

// Each stage on a worker, the features or the samples of every operator over two or three.
std::vector<Case> plans() {
  const auto by_samples = [](const std::string& ranges) {
    std::string shares;
    for (const char* node : {"one", "two", "three", "loss"})
      shares += format("{}\"{}\": {}", shares.empty() ? "" : ", ", node, ranges);
    return format("{{\"kerf_shares\": 1, \"shares\": {{{}}}}}", shares);
  };
  return {
      {"chain", Cut::kLayer, 1},
      {"chain", Cut::kLayer, 2},
      {"chain", Cut::kLayer, 3},
      {"chain", Cut::kFeature, 2},
      {"chain", Cut::kFeature, 3},
      {"chain", Cut::kFree, 2, by_samples(R"({"0": {"samples": "0-2"}, "1": {"samples": "3-4"}})")},
      {"chain", Cut::kFree, 3,
       by_samples(R"({"0": {"samples": "0"}, "1": {"samples": "1-3"}, "2": {"samples": "4"}})")},
      {"normalised", Cut::kLayer, 1},
      {"normalised", Cut::kLayer, 2},
  };
}

struct RunOf {
  std::string dataset = "clean";  // "nan", "inf": with a spoiled step 2
  int64_t steps = 1;
  double rate = 0.05;
  double momentum = 0.9;
  std::vector<NamedTensor> weights = {};  // to start from; empty: initialise
};

TrainingFactories factories() {
  return {make_model,
          [](const std::string& name, Split, const DataRequest&) -> std::shared_ptr<const Dataset> {
            const float bad = name == "nan"   ? NAN
                              : name == "inf" ? INFINITY
                              : name == "big" ? 1e30F
                                              : 0.0F;
            return std::make_shared<Rows>(name != "clean", bad);
          }};
}

struct Answer {
  std::vector<StepRecord> steps;
  std::vector<NamedTensor> weights;
  std::vector<RouteFigures> routes;
  std::vector<WorkerFigures> workers;
  Plan plan;
};

Plan plan_of(const Model& model, const Case& c) {
  partitioner::PlanRequest request;
  request.cut = c.cut;
  request.workers = c.workers;
  request.batch = kBatch;
  request.micro_batches = kMicroBatches;
  request.shares = c.shares;
  request.shares_origin = "shares";
  if (!c.text.empty()) {
    const Schedule schedule = parse_schedule(c.text, "test");
    request.workers = schedule.stages();
    for (const auto& group : schedule.groups) request.placement.push_back(group.at(0));
  }
  return std::get<Plan>(partitioner::make_plan(model, request, *in_flight_of("1f1b")));
}

std::filesystem::path folder() {
  return std::filesystem::path(testing::TempDir()) / format("kerf-step-vector-{}", getpid());
}

Answer train(const Case& c, const RunOf& how) {
  const Model model = make_model(c.source);
  const Plan plan = plan_of(model, c);
  const Schedule schedule =
      c.text.empty() ? make_schedule("1f1b", model, plan) : parse_schedule(c.text, "test");
  std::filesystem::remove_all(folder());  // of a run that ended with an error
  std::filesystem::create_directories(folder() / "shards");
  TrainingOptions options;
  options.model_source = c.source;
  options.dataset = how.dataset;
  options.batch = kBatch;
  options.steps = how.steps;
  options.evaluate = false;
  options.shuffle = false;
  options.optimizer.learning_rate = how.rate;
  options.optimizer.momentum = how.momentum;
  options.shards = folder() / "shards";
  if (!how.weights.empty()) {
    options.weights = folder() / "begin.safetensors";
    write_safetensors(options.weights, how.weights);
  }
  Training program(factories(), model, plan, schedule, options);
  const auto crew = tests::inproc_crew(plan.workers_bound(),
                                       {{"training", [] { return training_worker(factories()); }}});
  run(program, *crew, {3, 1});
  crew->stop();
  join_weights(model, plan, folder() / "shards", folder() / "weights.safetensors");
  Answer answer{program.steps(), read_safetensors(folder() / "weights.safetensors"),
                program.routes(), program.workers(), plan};
  std::filesystem::remove_all(folder());
  return answer;
}

void expect_same_weights(const Answer& a, const Answer& b, const std::string& when) {
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (size_t i = 0; i < a.weights.size(); ++i)
    EXPECT_TRUE(a.weights[i].bytes == b.weights[i].bytes) << a.weights[i].name << " " << when;
}

class EveryPlan : public testing::TestWithParam<size_t> {
 public:
  static Case plan() { return plans()[GetParam()]; }
};

TEST_P(EveryPlan, AStepThatIsNotFiniteIsAsIfItHadNotBeen) {
  for (const std::string bad : {"nan", "inf"}) {
    // Right behind the step, and three steps later: momentum and running statistics too.
    for (const int64_t later : {0, 3}) {
      const Answer spoiled = train(plan(), {bad, 3 + later});
      const Answer clean = train(plan(), {"clean", 2 + later});
      expect_same_weights(spoiled, clean, format("{} steps after {}", later, bad));
      for (size_t step = 0; step < spoiled.steps.size(); ++step) {
        EXPECT_EQ(spoiled.steps[step].skipped.empty(), step != 2) << step;
        if (step == 2) continue;
        const StepRecord& same = clean.steps[step - (step > 2 ? 1 : 0)];
        EXPECT_EQ(spoiled.steps[step].loss, same.loss) << step;
        EXPECT_EQ(spoiled.steps[step].gradient_norm, same.gradient_norm) << step;
      }
    }
  }
}

TEST_P(EveryPlan, MessagesBytesAndMemoryAreThosePredicted) {
  const Answer answer = train(plan(), {"nan", 4});
  for (size_t route = 0; route < answer.routes.size(); ++route) {
    EXPECT_EQ(answer.routes[route].messages, answer.routes[route].predicted_messages) << route;
    EXPECT_EQ(answer.routes[route].bytes, answer.routes[route].predicted_bytes) << route;
    if (answer.plan.routes[route].value == partitioner::kStepVector) {
      EXPECT_EQ(answer.routes[route].messages, 4) << "one a step";
    }
  }
  for (const WorkerFigures& worker : answer.workers)
    EXPECT_EQ(worker.peak_bytes, worker.proved_bytes) << worker.worker;
}

// Plain descent at rate 1: what a step takes off the weights is its gradient.
TEST_P(EveryPlan, TheNormIsAPlainLoops) {
  RunOf how{"clean", 1, 1, 0};
  const Answer before = train(plan(), how);
  ++how.steps;
  const Answer after = train(plan(), how);
  const Model model = make_model(plan().source);
  double sum = 0;
  for (size_t i = 0; i < before.weights.size(); ++i) {
    const NamedTensor& from = before.weights[i];
    if (model.value(model.find_value(from.name)).role != ops::Role::kParameter) continue;
    for (size_t at = 0; at < from.bytes.size(); at += sizeof(float)) {
      float old = 0, updated = 0;
      std::memcpy(&old, from.bytes.data() + at, sizeof old);
      std::memcpy(&updated, after.weights[i].bytes.data() + at, sizeof updated);
      sum += (double{old} - updated) * (double{old} - updated);
    }
  }
  EXPECT_NEAR(after.steps[1].gradient_norm, std::sqrt(sum), 1e-5 * std::sqrt(sum));
}

INSTANTIATE_TEST_SUITE_P(StepVector, EveryPlan, testing::Range<size_t>(0, plans().size()));

TEST(StepVector, OfALayerCutHasTheBitsOfOneWorker) {
  for (const std::string source : {"chain", "normalised"}) {
    const Answer alone = train({source}, {"clean", 4});
    for (const int workers : {2, 3}) {
      const Answer together = train({source, Cut::kLayer, workers}, {"clean", 4});
      for (size_t step = 0; step < alone.steps.size(); ++step) {
        EXPECT_EQ(together.steps[step].loss, alone.steps[step].loss);
        EXPECT_EQ(together.steps[step].correct, alone.steps[step].correct);
        EXPECT_EQ(together.steps[step].gradient_norm, alone.steps[step].gradient_norm);
      }
    }
  }
}

// U of stage 2 stands before the last B's of stage 1, of the same worker: it waits for what they
// still have to say.
TEST(StepVector, UpdatesOfAWorkerMayStandApart) {
  const std::string text =
      "kerf-schedule 1\nname apart\nworkers 2\nmicro-batches 2\n"
      "stage 0 on 0\nstage 1 on 1\nstage 2 on 1\n"
      "row 0: 0F0 0F1 0B0 0B1 0U\n"
      "row 1: 1F0 2F0 1F1 2F1 2B0 2B1 2REDUCE_GRAD 2U 1B0 1B1 1U\n";
  const Case apart{"chain", Cut::kLayer, 2, {}, text};
  const Answer alone = train({}, {"clean", 5});
  expect_same_weights(train(apart, {"clean", 5}), alone, "apart");
  expect_same_weights(train(apart, {"nan", 6}), alone, "apart, with a step skipped");
}

// Hidden units are 1, whatever the rows are; scores and loss are about 1e12; and the gradient of
// the first weights is that times the row of 1e30.
TEST(StepVector, AGradientThatOverflowsIsNoticed) {
  for (const int workers : {1, 2, 3}) {
    const Case c{"chain", Cut::kLayer, workers};
    RunOf how{"big", 4, 1e-44, 0, train(c, {}).weights};
    for (NamedTensor& tensor : how.weights) {
      const float scale = tensor.name == "two.weight"     ? 1
                          : tensor.name == "three.weight" ? 1e12F
                                                          : 0;
      auto* x = reinterpret_cast<float*>(tensor.bytes.data());
      for (size_t i = 0; i < tensor.bytes.size() / sizeof(float); ++i)
        x[i] = tensor.name == "one.bias" ? 1 : scale * std::abs(x[i]);
    }
    const Answer answer = train(c, how);
    EXPECT_TRUE(std::isfinite(answer.steps[2].loss));
    for (size_t step = 0; step < 4; ++step)
      EXPECT_EQ(answer.steps[step].skipped, step == 2 ? "the gradient of one.weight" : "");
  }
}

std::string complaint(const Case& c, const RunOf& how) {
  try {
    train(c, how);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "no complaint";
}

// Weights of 1e30 times a gradient: no step after the first is finite.
TEST(StepVector, ARunThatLearnsNothingAnyMoreEndsWithItsFirstCause) {
  for (const int workers : {1, 2}) {
    const Case c{"chain", Cut::kLayer, workers};
    const std::string text = complaint(c, {"clean", 40, 1e30});
    EXPECT_THAT(text, HasSubstr("is no longer a finite number; a smaller --lr may help"));
    EXPECT_THAT(text, HasSubstr("step 1"));
    EXPECT_THAT(text, HasSubstr("10 steps from this one on"));
    EXPECT_THAT(complaint(c, {"clean", 4, 1e30}), HasSubstr("3 steps from this one on"));
  }
  EXPECT_EQ(complaint({}, {"nan", 3}), "no complaint") << "the last step alone";
}

}  // namespace
}  // namespace kerf::schedmp
