// The workers that sleep: once for each of F, I and W, of the action that runs, and no less long.
#include "tests/schedmp/sleeping_training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedmp/scheduler.h"
#include "schedmp/schedules.h"
#include "schedmp/simulate_run.h"
#include "schedmp/training/lanes.h"
#include "tests/schedmp/layers.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/random_dataset.h"

namespace kerf::schedmp {
namespace {

using kerf::tests::SleepingStream;
using kerf::tests::SleepingTraining;
using kerf::tests::Sleeps;
using kerf::tests::told_action;

constexpr int kMicroBatches = 3;
constexpr int64_t kSteps = 4;

TEST(ToldAction, IsWhatAWorkerSaysItDoes) {
  EXPECT_EQ(told_action("step 12: 10B3").stage, 10);
  EXPECT_EQ(told_action("step 12: 10B3 (behind ... 1F0 1F1)").name, "step 12: 10B3");
  EXPECT_EQ(told_action("step 12: 10B3 (behind 1F0)").stage, 10);
  for (const char* other : {"", "reading data", "step 12", "step 12: U"})
    EXPECT_EQ(told_action(other).stage, -1) << other;
}

struct Slept {
  int64_t sleeps = 0;
  double step_seconds = 0;  // the mean of all but the first
  double simulated_seconds = 0;
};

Slept train(const std::string& schedule_name, const ActionCosts& costs) {
  const Schedule schedule =
      make_schedule(schedule_name, chain_of_shape(schedule_name, 2), kMicroBatches);
  const auto model = kerf::tests::layers(2);
  const auto plan = kerf::tests::plan_of_layers(model, schedule, {});
  const TrainingFactories factories{[&](const std::string&) { return model; },
                                    [](const std::string&, Split, const DataRequest&) {
                                      return std::make_shared<kerf::tests::RandomDataset>(
                                          int64_t{64}, kerf::tests::kLayerFeatures,
                                          kerf::tests::kLayerClasses);
                                    }};
  TrainingOptions options;
  options.model_source = model.name();
  options.dataset = "random";
  options.batch = plan.batch;
  options.steps = kSteps;
  options.epochs = 1000;
  options.evaluate = false;
  options.optimizer.momentum = 0.9;
  Training program(factories, model, plan, schedule, options);
  const auto sleeps = std::make_shared<Sleeps>();
  sleeps->costs = costs;
  const auto crew = kerf::tests::inproc_crew(
      2, {{"training", [&] { return std::make_unique<SleepingTraining>(factories, sleeps); }}});
  run(program, *crew, {4, 1});
  crew->stop();
  const auto& steps = program.steps();
  const auto credits = credits_of(program.verdict(), options.setting.slots);
  return {sleeps->count.load(),
          static_cast<double>(steps.back().end_ns - steps.front().end_ns) * 1e-9 / (kSteps - 1),
          simulate_run(plan, lower(model, plan), schedule, costs, credits, kSteps).period(0)};
}

class SleepingWorkers : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Schedules, SleepingWorkers, testing::Values("1f1b", "zb-h1"),
                         [](const auto& it) { return it.index == 0 ? "BAtOnce" : "IAndWApart"; });

TEST_P(SleepingWorkers, SleepOnceForEachOfFIAndW) {
  EXPECT_EQ(train(GetParam(), {.stages = {{0, 0, 0}, {0, 0, 0}}}).sleeps,
            3 * 2 * kMicroBatches * kSteps);
}

// Nobody sleeps less than was asked, so no step is shorter than it is simulated.
TEST_P(SleepingWorkers, AreNotFasterThanSimulated) {
  const ActionCosts costs{.stages = {{0.004, 0.002, 0.003}, {0.001, 0.003, 0.002}}};
  const Slept slept = train(GetParam(), costs);
  const double early = 1e-9 * static_cast<double>(SleepingStream::kMostEarly.count());
  EXPECT_GE(slept.step_seconds, slept.simulated_seconds - 3 * 2 * kMicroBatches * early);
}

}  // namespace
}  // namespace kerf::schedmp
