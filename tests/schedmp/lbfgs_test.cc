// L-BFGS by commands finds minima that are known, in about as many evaluations as SciPy's L-BFGS-B;
// every point that it accepts fulfils Wolfe's conditions; and it ends in order whatever comes back.
#include "schedmp/training/lbfgs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "tests/schedmp/lbfgs_objectives.h"
#include "tests/schedmp/lbfgs_run.h"

namespace kerf::schedmp {
namespace {

using testing::HasSubstr;
using tests::bowl;
using tests::LbfgsEnded;
using tests::Logistic;
using tests::minimise;
using tests::Objective;
using tests::rosenbrock;
using tests::rosenbrock_start;

struct Known {
  std::string name;
  Objective objective;
  std::vector<float> start;
  std::vector<double> optimum;
  double within;
  int64_t scipy;  // evaluations of its L-BFGS-B, with the same tolerances, in float64
};

std::vector<Known> known() {
  std::vector<Known> all;
  for (const auto& [count, scipy] : {std::pair(2, 44), {3, 43}, {10, 88}, {100, 601}})
    all.push_back({"rosenbrock_" + std::to_string(count), rosenbrock,
                   rosenbrock_start(static_cast<size_t>(count)),
                   std::vector(static_cast<size_t>(count), 1.0), 2e-3, scipy});
  for (const auto& [condition, scipy] : {std::pair(1.0, 3), {100.0, 69}, {1e4, 512}})
    all.push_back({"bowl_" + std::to_string(static_cast<int>(condition)), bowl(condition),
                   std::vector(50, 0.0F), std::vector(50, 1.0), 2e-3, scipy});
  all.push_back({"logistic", tests::logistic(), std::vector(Logistic::kColumns, 0.0F),
                 Logistic().optimum(), 2e-3, 9});
  return all;
}

class LbfgsFinds : public testing::TestWithParam<Known> {};

TEST_P(LbfgsFinds, TheMinimumAsFastAsSciPy) {
  const Known& of = GetParam();
  const LbfgsEnded ended = minimise(of.objective, of.start);
  RecordProperty("evaluations", static_cast<int>(ended.evaluations));
  EXPECT_TRUE(ended.converged) << ended.reason;
  for (size_t i = 0; i < of.optimum.size(); ++i)
    EXPECT_NEAR(ended.point[i], of.optimum[i], of.within) << i;
  EXPECT_LE(ended.evaluations, of.scipy * 5 / 4 + 2);
  // Two an iteration, two for each evaluation but an iteration's first, which has one; and the
  // start's sums.
  EXPECT_EQ(ended.commands, 2 * ended.evaluations + ended.iterations - 1) << ended.evaluations;
}

// Sums of pieces are rounded otherwise.
TEST_P(LbfgsFinds, NearlyTheSameInPieces) {
  const Known& of = GetParam();
  const LbfgsEnded one = minimise(of.objective, of.start);
  const LbfgsEnded three = minimise(of.objective, of.start, {}, 3);
  for (size_t i = 0; i < of.optimum.size(); ++i)
    EXPECT_NEAR(three.point[i], one.point[i], of.within) << i;
  const LbfgsOptions few{.most_iterations = 5};
  const std::vector<float> at = minimise(of.objective, of.start, few).point;
  const std::vector<float> other = minimise(of.objective, of.start, few, 3).point;
  for (size_t i = 0; i < at.size(); ++i) EXPECT_NEAR(at[i], other[i], 1e-4) << i;
}

TEST_P(LbfgsFinds, TheSameAgain) {
  const Known& of = GetParam();
  EXPECT_EQ(minimise(of.objective, of.start, {}, 3).point,
            minimise(of.objective, of.start, {}, 3).point);
}

INSTANTIATE_TEST_SUITE_P(Known, LbfgsFinds, testing::ValuesIn(known()),
                         [](const auto& param) { return param.param.name; });

// The first step is one of length 1, whatever the gradient's; one pair knows all of a sphere's
// curvature, so the second step is to its middle.
TEST(Lbfgs, NeedsTwoStepsForASphere) {
  for (const double curvature : {0.01, 1.0, 300.0}) {
    const auto sphere = [=](const std::vector<float>& x, std::vector<double>& g) {
      double sum = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        g[i] = curvature * (double{x[i]} - 1);
        sum += g[i] * g[i] / curvature / 2;
      }
      return sum;
    };
    const std::vector<float> start(16, 0.0F);
    const LbfgsEnded first = minimise(sphere, start, {.most_iterations = 1});
    for (const float each : first.point) EXPECT_NEAR(each, 0.25, 1e-6);
    const LbfgsEnded ended = minimise(sphere, start);
    EXPECT_EQ(ended.evaluations, 3) << curvature;
    for (const float each : ended.point) EXPECT_NEAR(each, 1, 1e-5);
  }
}

// A longer history knows more of the curvature; one pair is enough to go down.
TEST(Lbfgs, NeedsFewerEvaluationsWithMorePairs) {
  const std::vector<float> start(50, 0.0F);
  const int64_t with_one = minimise(bowl(1000), start, {.history = 1}).evaluations;
  const int64_t with_many = minimise(bowl(1000), start, {.history = 30}).evaluations;
  EXPECT_LT(with_many, with_one);
}

// ---- how it ends

const std::vector<float> kStart(10, 0.0F);

TEST(LbfgsEnds, WhereTheStartIsTheMinimum) {
  const LbfgsEnded ended = minimise(bowl(100), std::vector(10, 1.0F));
  EXPECT_TRUE(ended.converged);
  EXPECT_EQ(ended.evaluations, 1);
  EXPECT_THAT(ended.reason, HasSubstr("gradient"));
}

TEST(LbfgsEnds, AtItsLimits) {
  const LbfgsEnded few = minimise(bowl(1000), kStart, {.most_iterations = 4});
  EXPECT_EQ(few.iterations, 4);
  EXPECT_FALSE(few.converged);
  EXPECT_THAT(few.reason, HasSubstr("4 iterations"));
  for (int64_t most = 1; most < 20; ++most) {
    const LbfgsEnded ended = minimise(bowl(1000), kStart, {.most_evaluations = most});
    EXPECT_EQ(ended.evaluations, most);
    EXPECT_FALSE(ended.converged);
    EXPECT_THAT(ended.reason, HasSubstr(std::to_string(most) + " evaluations"));
  }
  EXPECT_EQ(minimise(bowl(1000), kStart, {.most_iterations = 0}).point, kStart);
}

TEST(LbfgsEnds, AtAStartThatIsNotFinite) {
  for (const double loss : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    const LbfgsEnded ended = minimise([=](auto&, auto&) { return loss; }, kStart);
    EXPECT_EQ(ended.evaluations, 1);
    EXPECT_THAT(ended.reason, HasSubstr("loss at the start"));
  }
  const auto odd_gradient = [](auto&, std::vector<double>& g) {
    g[7] = std::nan("");
    return 1.0;
  };
  EXPECT_THAT(minimise(odd_gradient, kStart).reason, HasSubstr("gradient is not finite"));
}

// x - log x: beyond 0 there is nothing. Steps back until there is something.
TEST(LbfgsEnds, WithinWhereTheLossIsFinite) {
  for (const bool gradient_alone : {false, true}) {
    const auto barrier = [=](const std::vector<float>& x, std::vector<double>& g) {
      double sum = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        sum += double{x[i]} - std::log(std::max(double{x[i]}, 1e-30));
        g[i] = x[i] > 0 ? 1 - 1 / double{x[i]} : std::nan("");
        if (x[i] <= 0 && !gradient_alone) return std::nan("");
      }
      return sum;
    };
    const LbfgsEnded ended = minimise(barrier, {1e-3F, 5.0F, 300.0F});
    EXPECT_TRUE(ended.converged) << ended.reason;
    for (const float each : ended.point) EXPECT_NEAR(each, 1, 1e-3);
  }
}

TEST(LbfgsEnds, WhereTheLossHasNoLowest) {
  const auto slide = [](const std::vector<float>& x, std::vector<double>& g) {
    g[0] = -1;
    return -double{x[0]};
  };
  const LbfgsEnded ended = minimise(slide, {0.0F});
  EXPECT_FALSE(ended.converged);
  EXPECT_EQ(ended.iterations, 0);
  EXPECT_EQ(ended.evaluations, 21);
  EXPECT_THAT(ended.reason, HasSubstr("none of 20 steps"));
}

// Along the pairs no step is good, nor, once they are forgotten, along the gradient.
TEST(LbfgsEnds, WhereTheLossRisesForGood) {
  for (const int64_t good : {1, 8, 12}) {
    int64_t calls = 0;
    const auto rising = [&](const std::vector<float>& x, std::vector<double>& g) {
      return bowl(100)(x, g) + (++calls > good ? 1e6 : 0);
    };
    const LbfgsEnded ended = minimise(rising, kStart, {}, 1, false);
    EXPECT_FALSE(ended.converged);
    EXPECT_EQ(ended.evaluations, good + (good == 1 ? 20 : 40));
    std::vector<double> g(kStart.size());
    EXPECT_EQ(ended.loss, bowl(100)(ended.point, g));
    EXPECT_THAT(ended.reason, HasSubstr("none of 20 steps"));
  }
}

TEST(LbfgsEnds, WhereTheGradientPointsUp) {
  const auto turned = [](const std::vector<float>& x, std::vector<double>& g) {
    const double value = bowl(100)(x, g);
    for (double& each : g) each = -each;
    return value;
  };
  const LbfgsEnded ended = minimise(turned, kStart);
  EXPECT_EQ(ended.evaluations, 21);
  EXPECT_EQ(ended.point, kStart);
}

// A loss that is rounded to float32, as networks' are, and noise beyond it: with tolerances that
// nothing meets it ends near the minimum.
TEST(LbfgsEnds, InNoise) {
  for (const double noise : {0.0, 1e-7, 1e-5})
    for (uint64_t seed = 0; seed < 5; ++seed) {
      std::mt19937_64 random(seed);
      std::normal_distribution<double> normal;
      const auto noisy = [&](const std::vector<float>& x, std::vector<double>& g) {
        const double value = 3 + bowl(100)(x, g);
        for (double& each : g) each += noise * normal(random);
        return double{static_cast<float>(value * (1 + noise * normal(random)))};
      };
      const LbfgsEnded ended =
          minimise(noisy, kStart, {.most_gradient = 0, .least_decrease = 0}, 2, false);
      EXPECT_LT(ended.evaluations, 200) << ended.reason;
      for (const float each : ended.point) EXPECT_NEAR(each, 1, 0.02) << noise;
    }
}

TEST(LbfgsOptions, ThatMakeNoSense) {
  const double nan = std::nan("");
  for (const LbfgsOptions& options : std::vector<LbfgsOptions>{{.history = 0},
                                                               {.history = -1},
                                                               {.history = kMostHistory + 1},
                                                               {.most_iterations = -1},
                                                               {.most_evaluations = 0},
                                                               {.most_trials = 0},
                                                               {.most_gradient = -1},
                                                               {.most_gradient = nan},
                                                               {.least_decrease = -1e-9},
                                                               {.least_decrease = nan}})
    try {
      const Lbfgs lbfgs(options);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
    }
}

}  // namespace
}  // namespace kerf::schedmp
