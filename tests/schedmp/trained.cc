#include "tests/schedmp/trained.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>

#include "ops/arithmetic.h"
#include "partitioner/builder.h"
#include "partitioner/channels_last.h"
#include "partitioner/complete_plan.h"
#include "partitioner/replicas.h"
#include "partitioner/zoo.h"
#include "schedmp/scheduler.h"
#include "schedmp/schedules.h"
#include "tests/support/async_device.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/random_dataset.h"

namespace kerf::schedmp::tests {

using partitioner::Builder;
using partitioner::PlanRequest;
using partitioner::ValueId;

// A branch (two paths from one value), a skip over several layers, and a value with three
// consumers.
static Model braided() {
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

static Model dropping() {
  Builder b("dropping");
  const ValueId x = b.input("x", {ops::kBatch, 12});
  b.loss(b.gemm(b.dropout(b.relu(b.gemm(x, 24)), 0.3), 5));
  return b.build();
}

// Convolutions of as many channels as a library has blocks for, normalised or not: 12 numbers a row
// are an image of three channels.
static Model filtering(bool normalised) {
  Builder b("filtering");
  const ValueId x = b.input("x", {ops::kBatch, 3, 2, 2});
  const ValueId conv = b.conv(x, 40, 3, 1, 1, "wide");
  const ValueId wide = b.relu(normalised ? b.batch_norm(conv, "bn") : conv, "wide_relu");
  b.loss(b.gemm(b.flatten(b.relu(b.conv(wide, 24, 3, 1, 1, "deep"), "deep_relu"), "flat"), 5));
  return partitioner::channels_last(b.build());
}

Model make_model(const std::string& source) {
  if (source == "filtering") return filtering(true);
  if (source == "filtering, plain") return filtering(false);
  if (source == "braided") return braided();
  if (source == "dropping") return dropping();
  if (source == "lenet5") return partitioner::channels_last(partitioner::make_zoo_model("lenet5"));
  return partitioner::make_zoo_model("mlp", {partitioner::parse_sizes(source)});
}

TrainingFactories factories() {
  return {make_model, [](const std::string& name, Split split, const DataRequest&) {
            const int64_t features = name == "images" ? 784 : 12;
            const int64_t classes = name == "images" ? 10 : 5;
            const bool train = split == Split::kTrain;
            auto rows =
                std::make_shared<kerf::tests::RandomDataset>(train ? 70 : 33, features, classes);
            if (train && name == "rows, one odd") rows->make_odd(30);
            return rows;
          }};
}

static Schedule schedule_of(const Case& c, const Model& model, const Plan& plan) {
  if (!c.text.empty()) return parse_schedule(c.text, "test");
  return make_schedule(c.schedule, model, plan);
}

Plan plan_of(const Model& model, const Case& c) {
  PlanRequest request;
  request.cut = c.cut;
  request.workers = c.workers;
  request.batch = c.batch;
  request.micro_batches = c.micro_batches;
  request.given_sizes = c.given_sizes;
  request.schedule = c.schedule;
  request.setting.optimizer_states = ops::Optimizer(c.optimizer).states();
  request.setting.slots = c.slots;
  request.shares = c.shares;
  request.shares_origin = "shares";
  std::unique_ptr<partitioner::InFlight> in_flight;
  if (!c.text.empty()) {
    const Schedule schedule = parse_schedule(c.text, "test");
    const auto first = schedule.groups.begin();
    const auto of_one = [](const std::vector<int>& group) { return group.size() == 1; };
    if (std::all_of(first, first + schedule.stages(), of_one)) {
      request.workers = schedule.stages();
      for (auto group = first; group != first + schedule.stages(); ++group)
        request.placement.push_back(group->front());
    }
    in_flight = in_flight_of(schedule);
  } else {
    in_flight = in_flight_of(c.schedule);
  }
  request.updates_within = in_flight->updates_within();
  Plan plan = std::get<Plan>(partitioner::make_plan(model, request, *in_flight));
  const Schedule schedule = schedule_of(c, model, plan);
  if (schedule.replicas > 1)
    plan = replicated_plan(model, request, *in_flight, std::move(plan), schedule.groups,
                           schedule.replica_of);
  EXPECT_THAT(validate(model, plan), testing::IsEmpty());
  return plan;
}

static Plan bound_plan_of(const Model& model, const Case& c) {
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

static runtime::DeviceFactory devices_of(const Case& c) {
  if (!c.world) return [name = c.device](const std::string&) { return runtime::make_device(name); };
  return [world = c.world](const std::string&) {
    return kerf::tests::make_async_device(
        world, {.capacity = 0, .begin_thread = [] { ops::use_threads(1); }});
  };
}

Answer train(const Case& c) {
  const Model model = make_model(c.source);
  const Plan plan = bound_plan_of(model, c);
  const Schedule schedule = schedule_of(c, model, plan);
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) /
      (std::string("kerf-training-") +
       testing::UnitTest::GetInstance()->current_test_info()->test_suite_name() +
       std::to_string(::testing::UnitTest::GetInstance()->random_seed()) + "-" +
       std::to_string(getpid()));
  std::filesystem::create_directories(folder / "shards");

  TrainingOptions options;
  options.model_source = c.source;
  options.dataset = c.source == "lenet5" ? "images" : c.dataset;
  options.batch = c.batch;
  options.steps = c.steps;
  options.optimizer = c.optimizer;
  options.rates = c.rates;
  options.patience = c.patience;
  options.epochs = static_cast<int>(c.epochs);
  options.replicas = c.replicas;
  options.shards = folder / "shards";
  options.lbfgs = c.lbfgs;
  options.drain_every = c.drain_every;
  options.setting.slots = c.slots;
  options.setting.devices = {runtime::make_device(c.device)->kind()};
  const auto made = make_training(factories(), model, plan, schedule, options);
  Training& program = *made;
  const auto crew = kerf::tests::inproc_crew(
      program.count_workers(), {{"training", [] { return training_worker(factories()); }}},
      devices_of(c));
  run(program, *crew, {.depth = 3, .snapshots = c.snapshots});
  crew->stop();
  join_weights(model, plan, folder / "shards", folder / "weights.safetensors");

  Answer answer;
  for (const StepRecord& step : program.steps()) {
    answer.losses.push_back(step.loss);
    answer.gradient_norms.push_back(step.gradient_norm);
    answer.skipped.push_back(step.skipped);
    answer.trained_rows += step.rows;
    answer.staleness.push_back(step.staleness);
    answer.left_out.push_back(step.left_out);
  }
  answer.evaluations = program.evaluations();
  answer.evaluation_loss = program.evaluations().back().loss;
  answer.evaluated_rows = program.evaluations().back().rows;
  answer.correct = program.evaluations().back().correct;
  answer.weights = read_safetensors(folder / "weights.safetensors");
  answer.routes = program.routes();
  answer.workers = program.workers();
  answer.proved_bytes = program.verdict().peak_bytes;
  answer.plan = plan;
  if (const auto* by_lbfgs = dynamic_cast<const LbfgsTraining*>(made.get())) {
    answer.lbfgs = by_lbfgs->lbfgs();
    answer.portions = by_lbfgs->portions_of_replicas();
  }
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

void expect_same_when_late(Case c, const Answer& answer) {
  for (const uint64_t seed : {1U, 2U}) {
    c.world = std::make_shared<kerf::tests::AsyncWorld>(seed);
    expect_same_bits(train(c), answer);
    for (const std::string& report : c.world->reports()) ADD_FAILURE() << report;
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

void expect_memory_as_predicted(const Answer& answer) {
  const auto of_plan = static_cast<size_t>(answer.plan.workers_bound());
  EXPECT_EQ(answer.workers.size() % of_plan, 0U);
  for (size_t worker = 0; worker < answer.workers.size(); ++worker) {
    const int64_t proved = answer.proved_bytes[worker % of_plan];
    EXPECT_EQ(answer.workers[worker].peak_bytes, proved) << worker;
    EXPECT_EQ(answer.workers[worker].proved_bytes, proved) << worker;
    EXPECT_LE(proved, answer.plan.workers[worker % of_plan].peak_bytes) << worker;
  }
}

}  // namespace kerf::schedmp::tests
