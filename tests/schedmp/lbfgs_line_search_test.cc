// A line search ends at a step that fulfils Wolfe's conditions, from whatever step it begins.
#include "schedmp/training/lbfgs_line_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace kerf::schedmp {
namespace {

using Verdict = LbfgsLineSearch::Verdict;

struct Curve {
  std::string name;
  std::function<double(double)> value, slope;
};

// (5.1), (5.2) and (5.4) of More and Thuente, "Line search algorithms with guaranteed sufficient
// decrease", 1994, the last by Yanai, Ozawa and Kaneko; what has an end; what has many minima; what
// is a parabola.
std::vector<Curve> curves() {
  const auto yanai = [](double a, double b) {
    const auto weight = [](double c) { return std::sqrt(1 + c * c) - c; };
    const double left = weight(a);
    const double right = weight(b);
    return Curve{"yanai",
                 [=](double t) { return left * std::hypot(1 - t, b) + right * std::hypot(t, a); },
                 [=](double t) {
                   return left * (t - 1) / std::hypot(1 - t, b) + right * t / std::hypot(t, a);
                 }};
  };
  return {{"fraction", [](double t) { return -t / (t * t + 2); },
           [](double t) { return (t * t - 2) / ((t * t + 2) * (t * t + 2)); }},
          {"quintic", [](double t) { return std::pow(t + 0.004, 5) - 2 * std::pow(t + 0.004, 4); },
           [](double t) { return 5 * std::pow(t + 0.004, 4) - 8 * std::pow(t + 0.004, 3); }},
          yanai(0.001, 0.001),
          yanai(0.01, 0.001),
          yanai(0.001, 0.01),
          {"barrier", [](double t) { return -3 * t - std::log(1 - t); },
           [](double t) { return -3 + 1 / (1 - t); }},
          {"waves", [](double t) { return 0.1 * t * t - std::sin(9 * t); },
           [](double t) { return 0.2 * t - 9 * std::cos(9 * t); }},
          {"parabola", [](double t) { return t * t - t; }, [](double t) { return 2 * t - 1; }}};
}

TEST(LbfgsLineSearch, EndsWhereWolfesConditionsHold) {
  for (const Curve& curve : curves())
    for (const double first : {1e-3, 0.1, 1.0, 10.0, 1e3}) {
      const double value = curve.value(0);
      const double slope = curve.slope(0);
      LbfgsLineSearch search(value, slope, first, 30);
      EXPECT_EQ(search.step(), first);
      Verdict verdict = Verdict::kTryStep;
      int trials = 0;
      while (verdict == Verdict::kTryStep) {
        ASSERT_GT(search.step(), 0);
        verdict = search.tell(curve.value(search.step()), curve.slope(search.step()));
        ++trials;
      }
      ASSERT_EQ(verdict, Verdict::kAccepted) << curve.name << " from " << first;
      EXPECT_LE(curve.value(search.step()), value + 1e-3 * search.step() * slope);
      EXPECT_LE(std::abs(curve.slope(search.step())), -0.9 * slope);
      EXPECT_LE(trials, 16) << curve.name << " from " << first;
    }
}

// The minimum of a parabola is that of its cubic.
TEST(LbfgsLineSearch, FindsAParabolasMinimumInTwo) {
  for (const double first : {1.1, 3.0, 6.0}) {
    LbfgsLineSearch search(0, -1, first, 20);
    ASSERT_EQ(search.tell(first * first - first, 2 * first - 1), Verdict::kTryStep);
    EXPECT_NEAR(search.step(), std::max(0.5, 0.1 * first), 1e-12);
  }
}

// t^3 / 48 - t has its minimum at 4.
TEST(LbfgsLineSearch, GoesOnToACubicsMinimum) {
  LbfgsLineSearch search(0, -1, 1, 20);
  ASSERT_EQ(search.tell(1.0 / 48 - 1, 1.0 / 16 - 1), Verdict::kTryStep);
  EXPECT_NEAR(search.step(), 4, 1e-12);
  EXPECT_EQ(search.tell(64.0 / 48 - 4, 0), Verdict::kAccepted);
}

// Lower than the start, but higher than before, and falling: a minimum was passed.
TEST(LbfgsLineSearch, ComesBackFromWhereItRose) {
  LbfgsLineSearch search(0, -1, 1, 20);
  ASSERT_EQ(search.tell(-1, -1), Verdict::kTryStep);
  const double far = search.step();
  ASSERT_GT(far, 1);
  ASSERT_EQ(search.tell(-0.5, -1), Verdict::kTryStep);
  EXPECT_GT(search.step(), 1);
  EXPECT_LT(search.step(), far);
}

TEST(LbfgsLineSearch, ComesBackFromWhatIsNotFinite) {
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& [value, slope] :
       {std::pair(nan, 0.0), {infinity, 0.0}, {-infinity, 0.0}, {-1.0, nan}, {-1.0, infinity}}) {
    LbfgsLineSearch search(0, -1, 4, 20);
    EXPECT_EQ(search.tell(value, slope), Verdict::kTryStep);
    EXPECT_DOUBLE_EQ(search.step(), 0.4);
    EXPECT_EQ(search.tell(-0.2, 0), Verdict::kAccepted);
  }
}

TEST(LbfgsLineSearch, FailsAfterItsTrials) {
  LbfgsLineSearch up(0, -1, 1, 5);
  LbfgsLineSearch down(0, -1, 1, 5);
  LbfgsLineSearch nowhere(0, -1, 1, 5);
  for (int trial = 1; trial <= 5; ++trial) {
    const Verdict expected = trial < 5 ? Verdict::kTryStep : Verdict::kFailed;
    EXPECT_EQ(up.tell(up.step(), 1), expected);
    EXPECT_EQ(down.tell(-down.step(), -1), expected);
    EXPECT_EQ(nowhere.tell(std::nan(""), 0), expected);
  }
  EXPECT_LT(up.step(), 0.1);
  EXPECT_GE(down.step(), 256);  // four times as far each time
  EXPECT_NEAR(nowhere.step(), 1e-4, 1e-12);
}

}  // namespace
}  // namespace kerf::schedmp
