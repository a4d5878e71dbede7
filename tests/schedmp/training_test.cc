// Training is a program whose answer does not depend on who does it: the loss of every step and the
// final weights of any plan are those of one worker, bit for bit for layer cuts.
#include "schedmp/training/training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "partitioner/builder.h"
#include "partitioner/complete_plan.h"
#include "partitioner/cut.h"
#include "partitioner/zoo.h"
#include "runtime/error.h"
#include "schedmp/safetensors.h"
#include "schedmp/scheduler.h"
#include "schedmp/schedules.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/random_dataset.h"

namespace kerf::schedmp {
namespace {

using partitioner::Builder;
using partitioner::Cut;
using partitioner::Model;
using partitioner::Plan;
using partitioner::PlanRequest;
using partitioner::ValueId;

// A branch (two paths from one value), a skip over several layers, and a value with three
// consumers.
Model braided() {
  Builder b("braided");
  const ValueId x = b.input("x", {ops::kBatch, 12});
  const ValueId a = b.relu(b.gemm(x, 16, "a"), "a_relu");
  const ValueId left = b.relu(b.gemm(a, 16, "left"), "left_relu");
  const ValueId right = b.gemm(a, 16, "right");
  const ValueId joined = b.add(left, right, "joined");
  const ValueId deep = b.relu(b.gemm(joined, 16, "deep"), "deep_relu");
  const ValueId skipped = b.add(deep, a, "skip");
  b.loss(b.gemm(skipped, 5, "head"));
  return b.build();
}

Model dropping() {
  Builder b("dropping");
  const ValueId x = b.input("x", {ops::kBatch, 12});
  b.loss(b.gemm(b.dropout(b.relu(b.gemm(x, 24)), 0.3), 5));
  return b.build();
}

Model make_model(const std::string& source) {
  if (source == "braided") return braided();
  if (source == "dropping") return dropping();
  if (source == "lenet5") return partitioner::make_zoo_model("lenet5");
  return partitioner::make_zoo_model("mlp", {partitioner::parse_sizes(source)});
}

struct Case {
  std::string source = "12-24-18-10-5";
  Cut cut = Cut::kLayer;
  int workers = 1;
  std::string schedule = "1f1b";
  int64_t batch = 22;
  int micro_batches = 4;
  int64_t steps = 8;
  std::string shares = {};
  std::string text = {};          // of a schedule: its stages go where it has them
  std::vector<int> binding = {};  // part -> worker; empty: the cut's
};

struct Answer {
  std::vector<double> losses;
  int64_t trained_rows = 0;
  double evaluation_loss = 0;
  int64_t evaluated_rows = 0;
  int64_t correct = 0;
  std::vector<NamedTensor> weights;
  std::vector<RouteFigures> routes;
  std::vector<WorkerFigures> workers;
  std::vector<int64_t> proved_bytes;
  Plan plan;
};

TrainingFactories factories() {
  return {make_model, [](const std::string& name, Split split) {
            const int64_t features = name == "images" ? 784 : 12;
            const int64_t classes = name == "images" ? 10 : 5;
            return std::make_shared<tests::RandomDataset>(split == Split::kTrain ? 70 : 33,
                                                          features, classes);
          }};
}

Schedule schedule_of(const Case& c, const Plan& plan) {
  if (!c.text.empty()) return parse_schedule(c.text, "test");
  return make_schedule(c.schedule, groups_of(plan), c.micro_batches);
}

Plan plan_of(const Model& model, const Case& c) {
  PlanRequest request;
  request.cut = c.cut;
  request.workers = c.workers;
  request.batch = c.batch;
  request.micro_batches = c.micro_batches;
  request.schedule = c.schedule;
  request.shares = c.shares;
  request.shares_origin = "shares";
  if (c.text.empty())
    return std::get<Plan>(partitioner::make_plan(model, request, *in_flight_of(c.schedule)));
  const Schedule schedule = parse_schedule(c.text, "test");
  request.workers = schedule.stages();
  for (const auto& group : schedule.groups) request.placement.push_back(group.at(0));
  return std::get<Plan>(partitioner::make_plan(model, request, *in_flight_of(schedule)));
}

Plan bound_plan_of(const Model& model, const Case& c) {
  Plan plan = plan_of(model, c);
  if (c.binding.empty()) return plan;
  plan.binding = c.binding;
  partitioner::LeftOut predictions;
  predictions.layouts.resize(plan.layouts.size());
  predictions.workers = predictions.bottleneck = true;
  complete_plan(
      model, predictions, [](const std::string& name) { return in_flight_of(name); }, plan);
  return plan;
}

Answer train(const Case& c) {
  const Model model = make_model(c.source);
  const Plan plan = bound_plan_of(model, c);
  const Schedule schedule = schedule_of(c, plan);
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) /
      (std::string("kerf-training-") +
       testing::UnitTest::GetInstance()->current_test_info()->test_suite_name() +
       std::to_string(::testing::UnitTest::GetInstance()->random_seed()) + "-" +
       std::to_string(getpid()));
  std::filesystem::create_directories(folder / "shards");

  TrainingOptions options;
  options.model_source = c.source;
  options.dataset = c.source == "lenet5" ? "images" : "rows";
  options.batch = c.batch;
  options.steps = c.steps;
  options.optimizer.momentum = 0.9;
  options.shards = folder / "shards";
  Training program(factories(), model, plan, schedule, options);
  const auto crew = tests::inproc_crew(
      plan.workers_bound(), {{"training", [] { return std::make_unique<Training>(factories()); }}});
  run(program, *crew, {3, 1});
  crew->stop();
  join_weights(model, plan, folder / "shards", folder / "weights.safetensors");

  Answer answer;
  for (const StepRecord& step : program.steps()) {
    answer.losses.push_back(step.loss);
    answer.trained_rows += step.rows;
  }
  answer.evaluation_loss = program.evaluations().back().loss;
  answer.evaluated_rows = program.evaluations().back().rows;
  answer.correct = program.evaluations().back().correct;
  answer.weights = read_safetensors(folder / "weights.safetensors");
  answer.routes = program.routes();
  answer.workers = program.workers();
  answer.proved_bytes = program.verdict().peak_bytes;
  answer.plan = plan;
  std::filesystem::remove_all(folder);
  return answer;
}

void expect_counted_as_predicted(const Answer& answer) {
  EXPECT_FALSE(answer.routes.empty());
  for (size_t route = 0; route < answer.routes.size(); ++route) {
    EXPECT_EQ(answer.routes[route].messages, answer.routes[route].predicted_messages) << route;
    EXPECT_EQ(answer.routes[route].bytes, answer.routes[route].predicted_bytes) << route;
    EXPECT_GT(answer.routes[route].messages, 0) << route;
  }
}

void expect_same_bits(const Answer& a, const Answer& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.evaluation_loss, b.evaluation_loss);
  EXPECT_EQ(a.correct, b.correct);
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (size_t i = 0; i < a.weights.size(); ++i) {
    EXPECT_EQ(a.weights[i].name, b.weights[i].name);
    EXPECT_TRUE(a.weights[i].bytes == b.weights[i].bytes) << a.weights[i].name;
  }
}

class SameAnswer : public testing::TestWithParam<std::tuple<std::string, int, std::string>> {};

TEST_P(SameAnswer, BitForBit) {
  const auto [source, workers, schedule] = GetParam();
  Case c{source, Cut::kLayer, 1, "gpipe"};
  if (source == "lenet5") c.steps = 2;
  const Answer alone = train(c);
  c.workers = workers;
  c.schedule = schedule;
  const Answer together = train(c);
  expect_same_bits(alone, together);
  expect_counted_as_predicted(together);
}

INSTANTIATE_TEST_SUITE_P(LayerCuts, SameAnswer,
                         testing::Combine(testing::Values("12-24-18-10-5", "braided"),
                                          testing::Values(2, 3, 4),
                                          testing::Values("gpipe", "1f1b")));
INSTANTIATE_TEST_SUITE_P(LeNet, SameAnswer,
                         testing::Combine(testing::Values("lenet5"), testing::Values(3),
                                          testing::Values("1f1b")));
INSTANTIATE_TEST_SUITE_P(Dropout, SameAnswer,
                         testing::Combine(testing::Values("dropping"), testing::Values(2, 3),
                                          testing::Values("1f1b")));

// 200 steps are 50 epochs of 70 rows: three batches of 22 and one of 4. One row of five is right by
// chance.
TEST(Training, LearnsAndCountsEveryRow) {
  Case c;
  c.steps = 200;
  c.workers = 2;
  const Answer answer = train(c);
  EXPECT_LT(answer.losses.back(), answer.losses.front() * 0.8);
  EXPECT_EQ(answer.trained_rows, 50 * 70);
  EXPECT_EQ(answer.evaluated_rows, 33);
  EXPECT_GT(answer.correct, 3 * 33 / 5);
  EXPECT_LE(answer.correct, 33);
}

// A batch of 22 over 4 is 6+6+5+5; the last batch of 70 rows is 4: 1+1+1+1; and with 3 rows left
// some micro-batches are empty.
TEST(Training, KeepsTheLastBatchAndEmptyMicroBatches) {
  Case c{"12-24-18-10-5", Cut::kLayer, 1, "1f1b", 67, 5, 4};
  const Answer alone = train(c);
  c.workers = 3;
  const Answer together = train(c);
  expect_same_bits(alone, together);
  expect_counted_as_predicted(together);
}

// What ran took what was proved, to the byte, and what was proved no more than the plan says.
void expect_memory_as_predicted(const Answer& answer) {
  EXPECT_EQ(answer.workers.size(), static_cast<size_t>(answer.plan.workers_bound()));
  for (size_t worker = 0; worker < answer.workers.size(); ++worker) {
    EXPECT_EQ(answer.workers[worker].peak_bytes, answer.proved_bytes[worker]) << worker;
    EXPECT_EQ(answer.workers[worker].proved_bytes, answer.proved_bytes[worker]) << worker;
    EXPECT_LE(answer.proved_bytes[worker], answer.plan.workers[worker].peak_bytes) << worker;
  }
}

TEST(Training, TakesTheMemoryThatWasProved) {
  for (const std::string schedule : {"gpipe", "1f1b"})
    expect_memory_as_predicted(train({"12-24-18-10-5", Cut::kLayer, 3, schedule}));
  expect_memory_as_predicted(train({"lenet5", Cut::kLayer, 2, "1f1b", 22, 4, 1}));
}

// Gradients are summed over all micro-batches: it is the same step, however it is divided.
TEST(Training, MicroBatchesOnlyDivideAStep) {
  Case c{"12-24-18-10-5", Cut::kLayer, 1, "1f1b", 22, 1, 12};
  const Answer whole = train(c);
  for (const int micro_batches : {2, 3, 5}) {
    c.micro_batches = micro_batches;
    const Answer divided = train(c);
    for (size_t step = 0; step < whole.losses.size(); ++step)
      EXPECT_NEAR(divided.losses[step], whole.losses[step], 1e-5 * whole.losses[step])
          << micro_batches << " micro-batches, step " << step;
  }
}

// I and W apart, and the reduction an action of its own; V-shaped: two workers and back;
// interleaved: round and round.
const char* const kApart =
    "kerf-schedule 1\nname apart\nworkers 2\nmicro-batches 3\nstage 0 on 0\nstage 1 on 1\n"
    "row 0: 0F0 0F1 0F2 0I0 0I1 0W0 0I2 0W1 0W2 0REDUCE_GRAD 0U\n"
    "row 1: 1F0 1I0 1F1 1I1 1F2 1W0 1I2 1W1 1W2 1U\n";
const char* const kVShaped =
    "kerf-schedule 1\nname v\nworkers 2\nmicro-batches 2\n"
    "stage 0 on 0\nstage 1 on 1\nstage 2 on 1\nstage 3 on 0\n"
    "row 0: 0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1 0U 3U\n"
    "row 1: 1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1 1U 2U\n";
const char* const kInterleaved =
    "kerf-schedule 1\nname round\nworkers 2\nmicro-batches 2\n"
    "stage 0 on 0\nstage 1 on 1\nstage 2 on 0\nstage 3 on 1\n"
    "row 0: 0F0 0F1 2F0 2F1 2I0 2W0 2B1 0B0 0I1 0W1 0U 2U\n"
    "row 1: 1F0 1F1 3F0 3B0 3F1 3B1 3U 1B0 1B1 1U\n";

class Placed : public testing::TestWithParam<std::tuple<std::string, const char*>> {};

TEST_P(Placed, StagesOfAFileAnswerAsOneWorkerBitForBit) {
  const auto [source, text] = GetParam();
  const int micro_batches = parse_schedule(text, "test").micro_batches;
  Case c{source, Cut::kLayer, 1, "gpipe", 22, micro_batches};
  const Answer alone = train(c);
  c.text = text;
  const Answer together = train(c);
  expect_same_bits(alone, together);
  expect_counted_as_predicted(together);
  expect_memory_as_predicted(together);
  // What stays on a worker is counted apart.
  int64_t local = 0, crossed = 0, all = 0;
  for (const WorkerFigures& worker : together.workers) {
    local += worker.local_messages;
    crossed += worker.messages;
  }
  for (const RouteFigures& route : together.routes) all += route.messages;
  EXPECT_EQ(local + crossed, all);
  if (text == kVShaped) {
    EXPECT_GT(local, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Placements, Placed,
                         testing::Combine(testing::Values("12-24-18-10-5", "braided"),
                                          testing::Values(kApart, kVShaped, kInterleaved)));

// Shares of a stage on fewer workers than there are shares: the sums are the same, and so are the
// bits.
TEST(Training, PartsOfAStageMayShareAWorker) {
  struct Binding {
    Cut cut;
    std::vector<int> workers;
  };
  for (const auto& [cut, workers] :
       {Binding{Cut::kFeature, {0, 0, 1, 1}}, Binding{Cut::kFeature, {1, 0, 1, 0}},
        Binding{Cut::kFeature, {0, 0, 0, 0}}, Binding{Cut::kHybrid, {0, 1, 1, 0}}})
    for (const char* source : {"12-24-18-10-5", "braided"}) {
      Case c{source, cut, 4, "1f1b"};
      const Answer apart = train(c);
      c.binding = workers;
      const Answer together = train(c);
      expect_same_bits(together, apart);
      expect_counted_as_predicted(together);
      expect_memory_as_predicted(together);
    }
}

// Each part reports its samples of the loss, in evaluations too.
TEST(Training, SharesOfTheLossAddUpOnAWorker) {
  Case c{"12-24-18-10-5", Cut::kFree, 2, "1f1b"};
  c.shares = R"({"kerf_shares": 1, "shares": {"loss": {"0": {"samples": "0-1"},
                                                      "1": {"samples": "2-5"}}}})";
  const Answer apart = train(c);
  c.binding = {0, 0};
  const Answer together = train(c);
  EXPECT_EQ(together.losses, apart.losses);
  EXPECT_NEAR(together.evaluation_loss, apart.evaluation_loss, 1e-9);
  EXPECT_EQ(together.correct, apart.correct);
}

struct CutCase {
  Cut cut;
  std::string source;
  std::string shares;
};

class CutsAgree : public testing::TestWithParam<std::tuple<int, int>> {
 public:
  static std::vector<CutCase> cases() {
    return {
        {Cut::kFeature, "12-24-18-10-5", ""},
        {Cut::kHybrid, "12-24-18-10-5", ""},
        {Cut::kFeature, "braided", ""},
        {Cut::kFree, "12-24-18-10-5",
         R"({"kerf_shares": 1, "shares": {"fc1": {"0": "1-3,7,9-20", "1": "0,4-6,8,21-23"}}})"}};
  }
};

TEST_P(CutsAgree, WithOneWorkerWithin1e4) {
  const auto [workers, which] = GetParam();
  const CutCase cut = cases()[static_cast<size_t>(which)];
  Case c{cut.source, Cut::kLayer, 1, "1f1b", 22, 4, 50};
  const Answer alone = train(c);
  c.cut = cut.cut;
  c.workers = workers;
  c.shares = cut.shares;
  const Answer together = train(c);
  ASSERT_EQ(alone.losses.size(), together.losses.size());
  for (size_t step = 0; step < alone.losses.size(); ++step)
    EXPECT_NEAR(together.losses[step], alone.losses[step], 1e-4 * alone.losses[step]) << step;
  expect_counted_as_predicted(together);
  expect_memory_as_predicted(together);
}

INSTANTIATE_TEST_SUITE_P(WorkersAndCuts, CutsAgree,
                         testing::Combine(testing::Values(2, 3, 4, 5), testing::Range(0, 4)));

TEST(Training, RefusesWhatDoesNotFit) {
  const Model model = make_model("12-24-5");
  const Plan plan = plan_of(model, {"12-24-5", Cut::kLayer, 2});
  TrainingOptions sound;
  sound.model_source = "12-24-5";
  sound.dataset = "rows";
  sound.batch = plan.batch;
  const auto complaint = [&](const TrainingOptions& options, const Schedule& with) {
    try {
      const Training training(factories(), model, plan, with, options);
      return std::string("accepted");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  const auto groups = groups_of(plan);
  const Schedule schedule = make_schedule("1f1b", groups, 4);
  EXPECT_EQ(complaint(sound, schedule), "accepted");
  EXPECT_THAT(complaint(sound, make_schedule("1f1b", groups, 5)), testing::HasSubstr("the plan 4"));
  EXPECT_THAT(complaint(sound, forward_only(groups, 4)), testing::HasSubstr("no backward"));

  TrainingOptions options = sound;
  options.dataset = "images";
  EXPECT_THAT(complaint(options, schedule), testing::HasSubstr("784 features"));
  options = sound;
  options.batch = plan.batch + 1;
  EXPECT_THAT(complaint(options, schedule), testing::HasSubstr("but the plan is for"));
  options = sound;
  options.memory = 1000;
  EXPECT_THAT(complaint(options, schedule), testing::HasSubstr("memory cap of 1000 bytes"));
  options = sound;
  options.steps = 0;
  EXPECT_EQ(complaint(options, forward_only(groups, 4)), "accepted") << "to evaluate";
}

}  // namespace
}  // namespace kerf::schedmp
