#include "schedmp/training/learning_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/errors.h"

namespace kerf::schedmp {
namespace {

// Eight steps, of three an epoch, at a base of 2.
std::vector<double> rates(const std::string& text, int64_t warm_up = 0) {
  RateSchedule schedule = parse_rate_schedule(text);
  schedule.warm_up = warm_up;
  std::vector<double> all;
  for (int64_t step = 0; step < 8; ++step) all.push_back(learning_rate_of(schedule, 2, step, 8, 3));
  return all;
}

TEST(LearningRate, StaysOrFallsInSteps) {
  EXPECT_THAT(rates("constant"), testing::Each(2.0));
  EXPECT_THAT(rates("step:3:0.5"), testing::ElementsAre(2, 2, 2, 1, 1, 1, 0.5, 0.5));
  EXPECT_THAT(rates("step:2e:0.5"), testing::ElementsAre(2, 2, 2, 2, 2, 2, 1, 1));
}

// cos of 0, 45, 90, ... degrees.
TEST(LearningRate, FallsByACosine) {
  const double half = std::sqrt(0.5);
  const std::vector<double> all = rates("cosine");
  const double expected[] = {2, 0, 1 + half, 0, 1, 0, 1 - half, 0};
  for (size_t step = 0; step < 8; step += 2) EXPECT_NEAR(all[step], expected[step], 1e-12) << step;
  for (size_t step = 1; step < 8; ++step) EXPECT_LT(all[step], all[step - 1]);
}

TEST(LearningRate, GrowsAtFirst) {
  EXPECT_THAT(rates("constant", 4), testing::ElementsAre(0.5, 1, 1.5, 2, 2, 2, 2, 2));
  EXPECT_THAT(rates("step:3:0.5", 2), testing::ElementsAre(1, 2, 2, 2, 2, 1, 1, 1));
  const std::vector<double> all = rates("cosine", 2);
  EXPECT_EQ(all[1], 2);
  EXPECT_EQ(all[2], 2);
  EXPECT_NEAR(all[5], 1, 1e-12) << "half way of the six behind";
  EXPECT_THAT(rates("constant", 100),
              testing::ElementsAre(0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.14, 0.16));
}

TEST(LearningRate, OtherTextsAreRefused) {
  for (const std::string text :
       {"", "cos", "step", "step:", "step:3", "step:3:", "step:0:0.5", "step:-1:0.5", "step:3:0",
        "step:3:1.5", "step:3:nan", "step:3x:0.5", "step:3:0.5:1", "cosine "}) {
    const auto error = kerf::tests::error_of([&] { parse_rate_schedule(text); });
    ASSERT_TRUE(error) << text;
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_THAT(error->what(), testing::HasSubstr("step:EVERY:FACTOR"));
  }
  for (const std::string text : {"constant", "cosine", "step:30e:0.1", "step:1000:0.5"})
    EXPECT_EQ(to_string(parse_rate_schedule(text)), text);
}

}  // namespace
}  // namespace kerf::schedmp
