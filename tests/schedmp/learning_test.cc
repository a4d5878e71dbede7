// Whatever optimizer, schedule of rates and clipping: any layer cut gives the bits of one worker,
// takes the memory that was proved, and stops where it should.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "schedmp/schedules.h"
#include "tests/schedmp/trained.h"
#include "tests/support/errors.h"

namespace kerf::schedmp {
namespace {

using tests::Answer;
using tests::Case;
using tests::Cut;
using tests::Model;
using tests::Plan;
using tests::train;

struct Way {
  std::string name;
  ops::OptimizerOptions optimizer;
  std::string rates = "constant";
  int64_t warm_up = 0;
};

std::vector<Way> ways() {
  return {{"nesterov",
           {.momentum = 0.9, .nesterov = true, .weight_decay = 0.01, .most_norm = 0.5},
           "step:3:0.5"},
          {"adagrad",
           {.name = "adagrad", .learning_rate = 0.05, .epsilon = 1e-10, .weight_decay = 0.01}},
          {"adam", {.name = "adam", .learning_rate = 0.01, .weight_decay = 0.01}},
          {"adamw",
           {.name = "adamw",
            .learning_rate = 0.02,
            .weight_decay = 0.1,
            .no_decay = {"*.bias"},
            .most_norm = 1},
           "cosine",
           3}};
}

Case with(const Way& way, const std::string& source = "12-24-18-10-5") {
  Case c{source};
  c.optimizer = way.optimizer;
  c.rates = parse_rate_schedule(way.rates);
  c.rates.warm_up = way.warm_up;
  return c;
}

class EveryWay : public testing::TestWithParam<Way> {};

TEST_P(EveryWay, IsTheSameOnAnyNumberOfWorkers) {
  for (const std::string source : {"12-24-18-10-5", "braided"}) {
    Case c = with(GetParam(), source);
    const Answer alone = train(c);
    EXPECT_LT(alone.losses.back(), alone.losses.front());
    for (const int workers : {2, 3}) {
      c.workers = workers;
      const Answer together = train(c);
      tests::expect_same_bits(alone, together);
      EXPECT_EQ(alone.gradient_norms, together.gradient_norms);
      tests::expect_counted_as_predicted(together);
      tests::expect_memory_as_predicted(together);
    }
  }
}

TEST_P(EveryWay, IsTheSameHoweverLateAStreamIs) {
  Case c = with(GetParam());
  c.workers = 2;
  tests::expect_same_when_late(c, train(c));
}

TEST_P(EveryWay, IsNearlyTheSameWhereOperatorsAreDivided) {
  Case c = with(GetParam());
  const Answer alone = train(c);
  c.cut = Cut::kFeature;
  c.workers = 2;
  const Answer divided = train(c);
  for (size_t step = 0; step < alone.losses.size(); ++step)
    EXPECT_NEAR(divided.losses[step], alone.losses[step], 1e-4) << step;
}

INSTANTIATE_TEST_SUITE_P(Ways, EveryWay, testing::ValuesIn(ways()),
                         [](const auto& param) { return param.param.name; });

std::vector<float> weights_of(const Answer& answer) {
  std::vector<float> all;
  for (const NamedTensor& tensor : answer.weights) {
    const size_t begin = all.size();
    all.resize(begin + tensor.bytes.size() / sizeof(float));
    std::memcpy(all.data() + begin, tensor.bytes.data(), tensor.bytes.size());
  }
  return all;
}

// A step is as long as rate times norm, of all parameters together.
TEST(Clipping, ShortensAStepToWhatTheNormAllows) {
  for (const double most : {0.0, 0.25, 1e6}) {
    Case c;
    c.workers = 3;
    c.optimizer = {.learning_rate = 0.1, .most_norm = most};
    c.steps = 0;
    c.schedule = "1f1b";
    const std::vector<float> before = weights_of(train(c));
    c.steps = 1;
    const Answer answer = train(c);
    const std::vector<float> after = weights_of(answer);
    double squares = 0;
    for (size_t i = 0; i < before.size(); ++i)
      squares += std::pow(double{after[i]} - double{before[i]}, 2);
    const double norm = answer.gradient_norms[0];
    ASSERT_GT(norm, 0.25);
    EXPECT_NEAR(std::sqrt(squares), 0.1 * (most == 0.25 ? 0.25 : norm), 1e-5) << most;
  }
}

// 70 rows in batches of 22 are four steps an epoch.
TEST(EarlyStop, KeepsTheWeightsOfTheLowestLoss) {
  Case c;
  c.optimizer = {.name = "adam", .learning_rate = 0.2};
  c.steps = 400;
  c.patience = 3;
  c.workers = 2;
  const Answer answer = train(c);
  size_t best = 0;
  for (size_t i = 0; i < answer.evaluations.size(); ++i)
    if (answer.evaluations[i].loss < answer.evaluations[best].loss) best = i;
  ASSERT_EQ(answer.evaluations.size(), best + 1 + 3) << "stops after three in vain";
  ASSERT_LT(answer.losses.size(), 400U);
  EXPECT_EQ(answer.losses.size(), 4 * answer.evaluations.size());
  for (size_t i = 0; i < answer.evaluations.size(); ++i)
    EXPECT_EQ(answer.evaluations[i].kept, i == best) << i;

  c.patience = 0;
  c.steps = 4 * static_cast<int64_t>(best + 1);
  const Answer straight = train(c);
  EXPECT_EQ(weights_of(straight), weights_of(answer));
  EXPECT_TRUE(straight.evaluations.back().kept);
  EXPECT_FALSE(straight.evaluations.front().kept);
}

TEST(EarlyStop, IsRefusedWithoutEvaluations) {
  const Model model = tests::make_model("12-24-5");
  const Plan plan = tests::plan_of(model, {"12-24-5"});
  TrainingOptions options;
  options.model_source = "12-24-5";
  options.dataset = "rows";
  options.batch = plan.batch;
  options.evaluate = false;
  options.patience = 2;
  const auto error = kerf::tests::error_of([&] {
    const Training training(tests::factories(), model, plan, make_schedule("1f1b", model, plan),
                            options);
  });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), testing::HasSubstr("patience is for evaluations"));
}

// Five classes have no top five.
TEST(Evaluation, CountsTheFiveLargestWhereThereAreMore) {
  EXPECT_FALSE(train({"12-24-5"}).evaluations.back().in_top);
  Case c{"12-24-9"};
  const EvaluationRecord alone = train(c).evaluations.back();
  ASSERT_TRUE(alone.in_top);
  EXPECT_GE(*alone.in_top, alone.correct);
  EXPECT_GT(*alone.in_top, 5 * 33 / 9);
  EXPECT_LE(*alone.in_top, 33);
  c.workers = 2;
  EXPECT_EQ(train(c).evaluations.back().in_top, alone.in_top);
}

}  // namespace
}  // namespace kerf::schedmp
