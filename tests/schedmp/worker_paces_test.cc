// Which workers have become slower beside the others, by what steps took them; and when it is worth
// to plan anew for that.
#include "schedmp/training/worker_paces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kerf::schedmp {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kStep = 100 * kMs;  // from end to end: 20 of them are a window of 2 s

class Paces : public testing::Test {
 protected:
  // Steps that took each worker so many milliseconds.
  void steps(int count, const std::vector<int64_t>& ms) {
    std::vector<int64_t> ns;
    for (const int64_t each : ms) ns.push_back(each * kMs);
    for (int step = 0; step < count; ++step) paces_.add(ns, now_ns_ += kStep);
  }
  void windows(int count, const std::vector<int64_t>& ms) { steps(20 * count, ms); }

  WorkerPaces paces_{3};
  int64_t now_ns_ = 77;
};

TEST_F(Paces, TheFirstWindowIsWhatOthersAreComparedWith) {
  steps(20, {10, 20, 40});
  EXPECT_TRUE(paces_.first().empty()) << "the first step only begins it";
  steps(1, {10, 20, 40});
  EXPECT_THAT(paces_.first(), ElementsAre(0.010, 0.020, 0.040));
  EXPECT_EQ(paces_.slowness(), std::nullopt);
  EXPECT_DOUBLE_EQ(paces_.step_seconds(), 0.1);
  windows(2, {10, 20, 40});
  EXPECT_THAT(paces_.slowness().value(), ElementsAre(1, 1, 1));
}

TEST_F(Paces, AWorkerThatTakesTwiceAsLongIsTwiceAsSlow) {
  steps(21, {10, 20, 40});
  windows(2, {10, 40, 40});
  EXPECT_THAT(paces_.slowness().value(), ElementsAre(1, 2, 1));
}

TEST_F(Paces, WhereAllTakeLongerAlikeNoneIsSlower) {
  steps(21, {10, 20, 40});
  windows(2, {30, 60, 120});
  EXPECT_THAT(paces_.slowness().value(), ElementsAre(1, 1, 1));
}

TEST_F(Paces, AWorkerThatIsFastAgainMakesTheOthersSlower) {
  steps(21, {10, 40, 40});
  windows(2, {10, 20, 40});
  EXPECT_THAT(paces_.slowness().value(), ElementsAre(2, 1, 2));
}

TEST_F(Paces, WhoIsStoppedNowAndThenShowsInTheMean) {
  steps(21, {10, 20, 40});
  for (int round = 0; round < 20; ++round) {
    steps(1, {10, 20, 40});
    steps(1, {10, 60, 40});
  }
  EXPECT_THAT(paces_.slowness().value(), ElementsAre(1, DoubleNear(2, 1e-9), 1));
}

TEST_F(Paces, WindowsThatDisagreeSayNothing) {
  steps(21, {10, 20, 40});
  windows(1, {10, 20, 40});
  windows(1, {10, 40, 40});
  EXPECT_EQ(paces_.slowness(), std::nullopt) << "one window may be a moment";
  windows(1, {10, 44, 40});
  EXPECT_THAT(paces_.slowness().value(), ElementsAre(1, DoubleNear(2.1, 1e-9), 1));
}

// What was measured meanwhile, or was being, is in none of the next.
TEST_F(Paces, StartOverWithAllButTheFirstWindow) {
  steps(21, {10, 20, 40});
  windows(2, {10, 40, 40});
  steps(7, {10, 90, 40});
  paces_.start_over();
  EXPECT_EQ(paces_.slowness(), std::nullopt);
  now_ns_ += 9'000 * kMs;
  steps(1, {10, 90, 40});
  windows(1, {10, 30, 40});
  EXPECT_EQ(paces_.slowness(), std::nullopt);
  EXPECT_DOUBLE_EQ(paces_.step_seconds(), 0.1);
  windows(1, {10, 30, 40});
  EXPECT_THAT(paces_.slowness().value(), ElementsAre(1, DoubleNear(1.5, 1e-9), 1));
  EXPECT_THAT(paces_.first(), ElementsAre(0.010, 0.020, 0.040));
}

TEST_F(Paces, AWindowOfLongStepsHasEightOfThem) {
  for (int step = 0; step < 9; ++step) {
    EXPECT_TRUE(paces_.first().empty());
    paces_.add(std::vector<int64_t>{10 * kMs, 20 * kMs, 40 * kMs}, now_ns_ += 5'000 * kMs);
  }
  EXPECT_FALSE(paces_.first().empty());
}

TEST(Difference, IsOfAnyWorkerEitherWay) {
  EXPECT_FALSE(differ({1, 1.2}, {1, 1}, 1.25));
  EXPECT_TRUE(differ({1, 1.25}, {1, 1}, 1.25));
  EXPECT_TRUE(differ({1, 1}, {1, 2}, 1.25));
}

TEST(Change, PaysWhereTheStepGetsATenthShorter) {
  const Prospect good{.before = 10, .after = 8, .step = 0.1, .steps_left = 1000, .cost = 2};
  EXPECT_TRUE(pays(good));
  Prospect small = good;
  small.after = 9.1;
  EXPECT_FALSE(pays(small));
  Prospect worse = good;
  worse.after = 12;
  EXPECT_FALSE(pays(worse));
}

// A fifth of 90 steps of 0.1 s is less than 2 s.
TEST(Change, DoesNotPayAtTheEndOfARun) {
  EXPECT_FALSE(pays({.before = 10, .after = 8, .step = 0.1, .steps_left = 90, .cost = 2}));
  EXPECT_TRUE(pays({.before = 10, .after = 8, .step = 0.1, .steps_left = 110, .cost = 2}));
}

TEST(Change, ComesNotTwiceWithinAMinuteOrTwentyTimesItsCost) {
  EXPECT_TRUE(is_too_soon(59, 1));
  EXPECT_FALSE(is_too_soon(61, 1));
  EXPECT_TRUE(is_too_soon(190, 10));
  EXPECT_FALSE(is_too_soon(201, 10));
}

}  // namespace
}  // namespace kerf::schedmp
