// The Lasso by sweeps, over workers of one process, beside a plain loop; and what it is made of.
#include "apps/lasso/lasso_sweeps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "apps/lasso/extrapolation.h"
#include "apps/lasso/lasso_sweep_worker.h"
#include "tests/apps/lasso_problem.h"
#include "tests/support/errors.h"

namespace kerf::apps {
namespace {

using tests::by_a_plain_loop;
using tests::expect_optimum;
using tests::largest_product;
using tests::objective_of;
using tests::Regression;
using tests::regression_of;
using tests::RegressionFiles;

LassoSweepOptions swept(const LassoProblem& problem, int sweeps = 2) {
  LassoSweepOptions options;
  static_cast<LassoProblem&>(options) = problem;
  options.sweeps = sweeps;
  return options;
}

std::unique_ptr<LassoSweeps> solved(const Regression& problem, const LassoSweepOptions& options,
                                    int workers) {
  auto program = std::make_unique<LassoSweeps>(options, workers, problem.y);
  tests::run_program<LassoSweepWorker>(*program, workers);
  return program;
}

TEST(LassoBySweeps, FindsWhatAPlainLoopFinds) {
  const Regression problem = regression_of(60, 90, 6, 0.6, 3);
  const RegressionFiles files(problem);
  for (const double part : {0.9, 0.3, 0.02}) {
    const double lambda = part * largest_product(problem);
    const std::vector<double> expected = by_a_plain_loop(problem, lambda);
    for (const int workers : {1, 2, 5})
      for (const int sweeps : {1, 7}) {
        const auto program = solved(problem, swept(files.asked(lambda), sweeps), workers);
        SCOPED_TRACE(part);
        expect_optimum(*program, problem, lambda, expected);
      }
  }
}

// Of columns that are nearly the same on different workers, all of what two of them find would be
// twice too much.
TEST(LassoBySweeps, NeverRises) {
  std::mt19937_64 random(4);
  std::normal_distribution<double> normal;
  Regression problem;
  problem.x.rows = 30;
  problem.x.columns = 12;
  for (int64_t j = 0; j < 12; ++j) {
    for (int32_t i = 0; i < 30; ++i) {
      problem.x.row.push_back(i);
      problem.x.values.push_back(1 + 0.05 * normal(random));
    }
    problem.x.begins.push_back(problem.x.entries());
  }
  for (int i = 0; i < 30; ++i) problem.y.push_back(5 + normal(random));
  const RegressionFiles files(problem);
  for (const int workers : {2, 4, 12}) {
    const LassoProblem asked = files.asked(0.01 * largest_product(problem), 1e-6);
    const auto program = solved(problem, swept(asked), workers);
    EXPECT_TRUE(program->run().converged()) << workers;
    const auto& history = program->run().points();
    for (size_t i = 1; i < history.size(); ++i)
      EXPECT_LE(objective_of(history[i]), objective_of(history[i - 1]) * (1 + 1e-12)) << i;
  }
}

TEST(LassoBySweeps, IsNoFartherFromTheOptimumThanItSays) {
  const Regression problem = regression_of(50, 200, 5, 0.6, 9);
  const RegressionFiles files(problem);
  const double lambda = 0.1 * largest_product(problem);
  const double optimum = objective_of(problem, by_a_plain_loop(problem, lambda), lambda);
  const auto program = solved(problem, swept(files.asked(lambda)), 2);
  int checks = 0;
  for (const HistoryPoint& point : program->run().points()) {
    if (!gap_of(point)) continue;
    ++checks;
    EXPECT_LE(objective_of(point) * (1 - *gap_of(point)), optimum * (1 + 1e-12));
  }
  EXPECT_GT(checks, 2);
}

TEST(LassoBySweeps, IsZeroWhereThePenaltyIsLarge) {
  const Regression problem = regression_of(30, 20, 4, 0, 4);
  const RegressionFiles files(problem);
  const auto program = solved(problem, swept(files.asked(7 * largest_product(problem))), 2);
  EXPECT_TRUE(program->run().converged());
  EXPECT_THAT(program->solution(), testing::Each(0.0));
  EXPECT_EQ(program->run().points().size(), 1);
}

// More rows and columns than a message has room for; most of them are empty.
TEST(LassoBySweeps, HasMessagesOfAnySize) {
  Regression problem = regression_of(40, 30, 5, 0.3, 5);
  const std::vector<double> expected = by_a_plain_loop(problem, 2);
  problem.x.columns = 210'000;
  problem.x.begins.resize(210'001, problem.x.entries());
  problem.x.rows = 110'000;
  problem.y.resize(110'000);
  const RegressionFiles files(problem);
  const auto program = solved(problem, swept(files.asked(2)), 2);
  EXPECT_TRUE(program->run().converged());
  for (size_t j = 0; j < expected.size(); ++j)
    EXPECT_NEAR(program->solution()[j], expected[j], 1e-3);
}

TEST(LassoBySweeps, RepeatsItself) {
  const Regression problem = regression_of(80, 300, 6, 0.6, 8);
  const RegressionFiles files(problem);
  const LassoSweepOptions options = swept(files.asked(0.1 * largest_product(problem)));
  EXPECT_EQ(solved(problem, options, 3)->solution(), solved(problem, options, 3)->solution());
}

TEST(LassoBySweeps, StopsWhereItIsTold) {
  const Regression problem = regression_of(80, 400, 6, 0.6, 8);
  const RegressionFiles files(problem);
  LassoProblem asked = files.asked(0.001 * largest_product(problem), 0);
  asked.most_passes = 3;
  const auto brief = solved(problem, swept(asked), 2);
  EXPECT_FALSE(brief->run().converged());
  EXPECT_GE(brief->run().points().back().updates, 3 * 400);
  EXPECT_LT(brief->run().points().back().updates, 6 * 400);
  EXPECT_TRUE(gap_of(brief->run().points().back())) << "it ends with a check";
  const double found = objective_of(problem, brief->solution(), asked.lambda);
  EXPECT_NEAR(objective_of(brief->run().points().back()), found, 1e-9 * found);
}

TEST(LassoBySweeps, EndsWhereRoundingLetsNothingFall) {
  const Regression problem = regression_of(60, 90, 6, 0.6, 3);
  const RegressionFiles files(problem);
  LassoProblem asked = files.asked(0.1 * largest_product(problem), -1);  // which no gap is
  asked.most_passes = 0;
  const auto program = solved(problem, swept(asked), 2);
  EXPECT_FALSE(program->run().converged());
  EXPECT_TRUE(program->run().stalled());
  EXPECT_LT(gap_of(program->run().points().back()).value(), 1e-9);
}

TEST(LassoBySweeps, RefusesNumbersWhoseSquaresAreNone) {
  Regression problem = regression_of(30, 20, 4, 0.5, 4);
  const auto fails = [&](const std::string& where) {
    const RegressionFiles files(problem);
    const auto error = tests::error_of([&] { solved(problem, swept(files.asked(1)), 2); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_THAT(error->what(), testing::HasSubstr(where));
  };
  const Regression fine = problem;
  problem.y[3] = 1e200;
  fails("no finite number");
  problem = fine;
  for (const double value : {1e-170, 1e160}) {
    problem.x.values[0] = value;
    fails("column 1 has a value of");
  }
}

// ---- extrapolation

// Of x -> a x + c with three eigenvalues the fixed point is found from four differences.
TEST(Extrapolation, FindsTheFixedPointOfALinearMap) {
  std::vector<std::vector<double>> iterates = {{1, -2, 5}};
  const auto next = [](const std::vector<double>& x) {
    return std::vector<double>{0.9 * x[0] + 0.1, 0.5 * x[1] + 1, -0.7 * x[2] + 3.4};
  };
  for (int i = 0; i < 4; ++i) iterates.push_back(next(iterates.back()));
  const auto mixed = extrapolation_of(iterates);
  ASSERT_TRUE(mixed);
  ASSERT_EQ(mixed->size(), 4);
  const std::vector<double> fixed = {1, 2, 2};
  double sum = 0;
  for (const double each : *mixed) sum += each;
  EXPECT_NEAR(sum, 1, 1e-12);
  for (size_t row = 0; row < 3; ++row) {
    double value = 0;
    for (size_t i = 0; i < 4; ++i) value += (*mixed)[i] * iterates[i + 1][row];
    EXPECT_NEAR(value, fixed[row], 1e-4);
  }
}

TEST(Extrapolation, SaysNothingOfWhatStandsStill) {
  EXPECT_FALSE(extrapolation_of({}));
  EXPECT_FALSE(extrapolation_of({{1, 2}}));
  EXPECT_FALSE(extrapolation_of({{1, 2}, {1, 2}, {1, 2}}));
}

}  // namespace
}  // namespace kerf::apps
