// Training is a program whose answer does not depend on who does it: the loss of every step and the
// final weights of any plan are those of one worker, bit for bit for layer cuts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/error.h"
#include "schedmp/schedules.h"
#include "tests/schedmp/trained.h"
#include "tests/support/errors.h"

namespace kerf::schedmp {
namespace {

using partitioner::Cut;
using partitioner::Model;
using partitioner::Plan;
using tests::Answer;
using tests::Case;
using tests::expect_counted_as_predicted;
using tests::expect_memory_as_predicted;
using tests::expect_same_bits;
using tests::expect_same_when_late;
using tests::factories;
using tests::make_model;
using tests::plan_of;
using tests::train;

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
  expect_same_when_late(c, together);
}

INSTANTIATE_TEST_SUITE_P(LayerCuts, SameAnswer,
                         testing::Combine(testing::Values("12-24-18-10-5", "braided", "filtering"),
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

// Larger than a slice (weight_slices.h), of which a divided layer's worker has columns that lie
// apart. At such a rate no weight changes.
TEST(Training, WritesDividedWeightsAsTheWholeHasThem) {
  Case c{"12-100000-5"};
  c.steps = 1;
  c.optimizer.learning_rate = 1e-30;
  const Answer whole = train(c);
  c.cut = Cut::kFeature;
  c.workers = 2;
  const Answer divided = train(c);
  ASSERT_EQ(divided.weights.size(), whole.weights.size());
  for (size_t i = 0; i < whole.weights.size(); ++i)
    EXPECT_TRUE(divided.weights[i].bytes == whole.weights[i].bytes) << whole.weights[i].name;
}

TrainingOptions options_for(const Plan& plan) {
  TrainingOptions options;
  options.model_source = "12-24-5";
  options.dataset = "rows";
  options.batch = plan.batch;
  return options;
}

TEST(Training, AStepThatIsDoneAgainComesToTheSameBitsOrToAnError) {
  const Model model = make_model("12-24-5");
  const Plan plan = plan_of(model, {"12-24-5", Cut::kLayer, 2});
  Training training(factories(), model, plan, make_schedule("1f1b", chain_of(groups_of(plan)), 4),
                    options_for(plan));
  TrainingResult first;
  first.loss = 0.1;
  first.squared_norm = 2;
  const auto error_of = [&](const TrainingResult& again) {
    return kerf::tests::error_of([&] { training.compare(3, {1, first}, {1, again}); });
  };
  TrainingResult later = first;
  later.end_ns = later.wait_ns = 17;
  EXPECT_FALSE(error_of(later));
  std::vector<TrainingResult> others(3, first);
  others[0].loss = std::nextafter(first.loss, 1);
  others[1].squared_norm = std::nextafter(first.squared_norm, 1);
  ++others[2].correct;
  for (const TrainingResult& other : others) {
    const auto error = error_of(other);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::kInternal);
    EXPECT_EQ(error->where(), "worker 1");
  }
}

TEST(Training, RefusesWhatDoesNotFit) {
  const Model model = make_model("12-24-5");
  const Plan plan = plan_of(model, {"12-24-5", Cut::kLayer, 2});
  const TrainingOptions sound = options_for(plan);
  const auto complaint = [&](const TrainingOptions& options, const Schedule& with) {
    try {
      const Training training(factories(), model, plan, with, options);
      return std::string("accepted");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  const auto groups = groups_of(plan);
  const Schedule schedule = make_schedule("1f1b", chain_of(groups), 4);
  EXPECT_EQ(complaint(sound, schedule), "accepted");
  EXPECT_THAT(complaint(sound, make_schedule("1f1b", chain_of(groups), 5)),
              testing::HasSubstr("the plan 4"));
  EXPECT_THAT(complaint(sound, forward_only(chain_of(groups), 4)),
              testing::HasSubstr("no backward"));

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
  EXPECT_EQ(complaint(options, forward_only(chain_of(groups), 4)), "accepted") << "to evaluate";
}

}  // namespace
}  // namespace kerf::schedmp
