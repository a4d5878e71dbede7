// The Lasso by sets of variables, over workers of one process, beside a plain loop.
#include "apps/lasso/lasso_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "apps/data/transposed.h"
#include "apps/lasso/lasso_set_worker.h"
#include "tests/apps/lasso_problem.h"
#include "tests/support/errors.h"

namespace kerf::apps {
namespace {

using schedmp::Sampling;
using tests::by_a_plain_loop;
using tests::expect_optimum;
using tests::largest_product;
using tests::objective_of;
using tests::Regression;
using tests::regression_of;
using tests::RegressionFiles;

LassoSetOptions options_of(const RegressionFiles& files, double lambda, Sampling sampling) {
  LassoSetOptions options;
  static_cast<LassoProblem&>(options) = files.asked(lambda);
  options.sets.sampling = sampling;
  options.sets.size = 8;
  return options;
}

void run(LassoSets& program, int workers) { tests::run_program<LassoSetWorker>(program, workers); }

TEST(LassoBySets, FindsWhatAPlainLoopFinds) {
  const Regression problem = regression_of(60, 90, 6, 0.6, 3);
  const RegressionFiles files(problem);
  for (const double part : {0.9, 0.3, 0.02}) {
    const double lambda = part * largest_product(problem);
    const std::vector<double> expected = by_a_plain_loop(problem, lambda);
    for (const Sampling sampling : {Sampling::kUniform, Sampling::kPriorityFiltered})
      for (const int workers : {1, 2, 3}) {
        LassoSetOptions options = options_of(files, lambda, sampling);
        options.sets.size = 4;
        LassoSets program(options, workers);
        run(program, workers);
        SCOPED_TRACE(part);
        expect_optimum(program, problem, lambda, expected);
      }
  }
}

// The gap says no less than what is left to the optimum, at every check.
TEST(LassoBySets, IsNoFartherFromTheOptimumThanItSays) {
  const Regression problem = regression_of(50, 200, 5, 0.6, 9);
  const RegressionFiles files(problem);
  const double lambda = 0.1 * largest_product(problem);
  const double optimum = objective_of(problem, by_a_plain_loop(problem, lambda), lambda);
  for (const Sampling sampling : {Sampling::kUniform, Sampling::kPriorityFiltered}) {
    LassoSets program(options_of(files, lambda, sampling), 2);
    run(program, 2);
    int checks = 0;
    for (const HistoryPoint& point : program.run().points()) {
      if (!gap_of(point)) continue;
      ++checks;
      EXPECT_LE(objective_of(point) * (1 - *gap_of(point)), optimum * (1 + 1e-12));
    }
    EXPECT_GT(checks, 2);
    EXPECT_EQ(program.run().points().front().updates, 0);
  }
}

TEST(LassoBySets, IsZeroWhereThePenaltyIsLarge) {
  const Regression problem = regression_of(30, 20, 4, 0, 4);
  const RegressionFiles files(problem);
  for (const double part : {1.0, 7.0}) {
    LassoSetOptions options =
        options_of(files, part * largest_product(problem), Sampling::kPriorityFiltered);
    LassoSets program(options, 2);
    run(program, 2);
    EXPECT_TRUE(program.run().converged());
    EXPECT_THAT(program.solution(), testing::Each(0.0));
    EXPECT_EQ(program.run().points().size(), 1) << "it knows before it begins";
  }
}

// More columns than a message has room for, most of them empty; sets larger than one, too.
TEST(LassoBySets, HasMessagesOfAnySize) {
  Regression problem = regression_of(40, 30, 5, 0.3, 5);
  const std::vector<double> expected = by_a_plain_loop(problem, 2);
  problem.x.columns = 120'000;
  problem.x.begins.resize(120'001, problem.x.entries());
  const RegressionFiles files(problem);
  for (const Sampling sampling : {Sampling::kUniform, Sampling::kPriorityFiltered}) {
    LassoSetOptions options = options_of(files, 2, sampling);
    options.sets.size = sampling == Sampling::kUniform ? 45'000 : 3'000;
    options.depth = 1;
    options.most_passes = sampling == Sampling::kUniform ? 3 : 60;
    LassoSets program(options, 2);
    run(program, 2);
    ASSERT_EQ(program.solution().size(), 120'000);
    if (sampling == Sampling::kUniform) continue;  // of thirty at once
    EXPECT_TRUE(program.run().converged());
    for (size_t j = 0; j < expected.size(); ++j)
      EXPECT_NEAR(program.solution()[j], expected[j], 1e-3);
  }
}

TEST(LassoBySets, RepeatsItselfBySeed) {
  const Regression problem = regression_of(80, 300, 6, 0.6, 8);
  const RegressionFiles files(problem);
  const double lambda = 0.1 * largest_product(problem);
  const auto solution = [&](uint64_t seed) {
    LassoSetOptions options = options_of(files, lambda, Sampling::kPriorityFiltered);
    options.sets.seed = seed;
    options.tolerance = 1e-4;
    LassoSets program(options, 3);
    run(program, 3);
    return program.solution();
  };
  const std::vector<double> first = solution(1);
  EXPECT_EQ(solution(1), first);
  EXPECT_NE(solution(2), first);
}

// All columns are nearly the same, and sets hold many of them.
TEST(LassoBySets, DivergesByPriorityAloneAndConvergesBehindTheFilter) {
  Regression problem = regression_of(40, 60, 3, 0, 6);
  for (size_t i = 0; i < problem.x.values.size(); ++i) problem.x.values[i] *= 0.7;
  SparseColumns& x = problem.x;
  std::vector<double> common(40, 1);
  SparseColumns alike{40, 60, {0}, {}, {}};
  for (int64_t j = 0; j < 60; ++j) {
    std::vector<double> column = common;
    for (size_t i = 0; i < x.rows_of(j).size(); ++i)
      column[static_cast<size_t>(x.rows_of(j)[i])] += x.values_of(j)[i];
    for (int32_t i = 0; i < 40; ++i) {
      alike.row.push_back(i);
      alike.values.push_back(column[static_cast<size_t>(i)]);
    }
    alike.begins.push_back(alike.entries());
  }
  x = alike;
  const RegressionFiles files(problem);
  const double lambda = 0.05 * largest_product(problem);
  LassoSetOptions options = options_of(files, lambda, Sampling::kPriority);
  options.sets.size = 16;
  LassoSets alone(options, 2);
  const auto error = kerf::tests::error_of([&] { run(alone, 2); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
  EXPECT_THAT(error->what(), testing::HasSubstr("it diverges"));
  EXPECT_THAT(error->what(), testing::HasSubstr("priority+filter"));

  options.sets.sampling = Sampling::kPriorityFiltered;
  options.tolerance = 0.01;
  LassoSets filtered(options, 2);
  run(filtered, 2);
  EXPECT_TRUE(filtered.run().converged());
}

// The unit of X is nobody's business: with lambda in the same unit, b is in one over it.
TEST(LassoBySets, IsTheSameInAnyUnit) {
  const Regression problem = regression_of(60, 90, 6, 0.6, 3);
  const double lambda = 0.1 * largest_product(problem);
  const double optimum = objective_of(problem, by_a_plain_loop(problem, lambda), lambda);
  for (const double unit : {1e-25, 1e-3, 1e20}) {
    Regression scaled = problem;
    for (double& value : scaled.x.values) value *= unit;
    const RegressionFiles files(scaled);
    LassoSets program(options_of(files, unit * lambda, Sampling::kPriorityFiltered), 2);
    run(program, 2);
    EXPECT_TRUE(program.run().converged()) << unit;
    EXPECT_NEAR(objective_of(program.run().points().back()), optimum, 2e-9 * optimum) << unit;
  }
}

// One column twice, and both at once: what one brings, both do.
TEST(LassoBySets, SaysSoWhereItOnlySwings) {
  Regression problem;
  problem.x = {3, 2, {0, 3, 6}, {0, 1, 2, 0, 1, 2}, {1, 2, 3, 1, 2, 3}};
  problem.y = {3, 6, 9};
  const RegressionFiles files(problem);
  LassoSetOptions options = options_of(files, 0.5, Sampling::kUniform);
  options.most_passes = 0;
  LassoSets program(options, 1);
  const auto error = tests::error_of([&] { run(program, 1); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), testing::HasSubstr("it diverges"));
}

TEST(LassoBySets, StopsWhereItIsTold) {
  const Regression problem = regression_of(80, 400, 6, 0.6, 8);
  const RegressionFiles files(problem);
  LassoSetOptions options = options_of(files, 0.001 * largest_product(problem), Sampling::kUniform);
  options.tolerance = 0;
  options.most_passes = 3;
  LassoSets brief(options, 2);
  run(brief, 2);
  EXPECT_FALSE(brief.run().converged());
  EXPECT_GE(brief.run().points().back().updates, 3 * 400);
  EXPECT_LT(brief.run().points().back().updates, 4 * 400);
  EXPECT_TRUE(gap_of(brief.run().points().back())) << "it ends with a check";
  options.most_passes = 0;
  options.most_seconds = 0.05;
  LassoSets timed(options, 2);
  run(timed, 2);
  EXPECT_GE(timed.run().points().back().seconds, 0.05);
}

TEST(DualityGap, IsZeroAtTheOptimumOfOneVariable) {
  // x = (1, 0), y = (3, 1), lambda 1: b = 2, r = (1, 1).
  const LassoTerms optimum{2, 4, 2, 1};
  EXPECT_DOUBLE_EQ(primal(optimum, 1), 3);
  EXPECT_DOUBLE_EQ(dual(optimum, 1), 3);
  EXPECT_DOUBLE_EQ(relative_gap(primal(optimum, 1), dual(optimum, 1)), 0);
  // b = 0: r = y.
  const LassoTerms start{10, 10, 0, 3};
  EXPECT_DOUBLE_EQ(dual(start, 1), 10.0 / 3 - 5.0 / 9);
  EXPECT_DOUBLE_EQ(relative_gap(5, 4), 0.2);
  EXPECT_EQ(relative_gap(5, 5.1), 0);
  EXPECT_EQ(relative_gap(0, 0), 0) << "y is 0";
}

TEST(Transposed, IsTheSameMatrix) {
  const Regression problem = regression_of(20, 30, 5, 0.5, 2);
  const SparseColumns by_row = transposed(problem.x);
  EXPECT_EQ(by_row.columns, 20);
  EXPECT_EQ(by_row.entries(), problem.x.entries());
  for (int64_t i = 0; i < 20; ++i) EXPECT_TRUE(std::ranges::is_sorted(by_row.rows_of(i)));
  EXPECT_EQ(transposed(by_row), problem.x);
}

}  // namespace
}  // namespace kerf::apps
