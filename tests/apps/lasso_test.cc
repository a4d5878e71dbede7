// The Lasso over workers of one process, beside a plain loop over coordinates.
#include "apps/lasso/lasso.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "apps/data/matrix_market.h"
#include "apps/lasso/lasso_worker.h"
#include "apps/lasso/transposed.h"
#include "schedmp/scheduler.h"
#include "tests/support/errors.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/temporary_folder.h"

namespace kerf::apps {
namespace {

using schedmp::Selection;

struct Problem {
  SparseColumns x;
  std::vector<double> y;
};

// Each column has `entries` rows; `mixed` of its left neighbour is in it, so that they depend on
// each other. y is made by a few columns.
Problem problem_of(int64_t rows, int64_t columns, int64_t entries, double mixed, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<std::vector<double>> dense(static_cast<size_t>(columns));
  for (auto& column : dense) {
    column.resize(static_cast<size_t>(rows));
    for (int64_t i = 0; i < entries; ++i)
      column[random() % static_cast<uint64_t>(rows)] = normal(random);
  }
  Problem problem;
  problem.x.rows = rows;
  problem.x.columns = columns;
  problem.y.resize(static_cast<size_t>(rows));
  for (size_t j = 0; j < dense.size(); ++j) {
    const std::vector<double>& neighbour = dense[(j + dense.size() - 1) % dense.size()];
    const double share = j % 7 == 0 ? 3 * normal(random) : 0;
    for (size_t i = 0; i < neighbour.size(); ++i) {
      const double value = dense[j][i] + mixed * neighbour[i];
      problem.y[i] += share * value;
      if (value == 0) continue;
      problem.x.row.push_back(static_cast<int32_t>(i));
      problem.x.values.push_back(value);
    }
    problem.x.begins.push_back(problem.x.entries());
  }
  for (double& each : problem.y) each += 0.1 * normal(random);
  return problem;
}

double objective_of(const Problem& problem, const std::vector<double>& b, double lambda) {
  std::vector<double> r = problem.y;
  double l1 = 0, squares = 0;
  for (int64_t j = 0; j < problem.x.columns; ++j) {
    const double each = b[static_cast<size_t>(j)];
    l1 += std::abs(each);
    for (size_t i = 0; i < problem.x.rows_of(j).size(); ++i)
      r[static_cast<size_t>(problem.x.rows_of(j)[i])] -= each * problem.x.values_of(j)[i];
  }
  for (const double each : r) squares += each * each;
  return squares / 2 + lambda * l1;
}

// One coordinate after the other, until none changes.
std::vector<double> by_a_plain_loop(const Problem& problem, double lambda) {
  const SparseColumns& x = problem.x;
  std::vector<double> b(static_cast<size_t>(x.columns)), r = problem.y;
  for (int pass = 0; pass < 20'000; ++pass) {
    double largest = 0;
    for (int64_t j = 0; j < x.columns; ++j) {
      const auto rows = x.rows_of(j);
      const auto values = x.values_of(j);
      double norm = 0, product = 0;
      for (size_t i = 0; i < rows.size(); ++i) {
        norm += values[i] * values[i];
        product += values[i] * r[static_cast<size_t>(rows[i])];
      }
      if (norm == 0) continue;
      double& old = b[static_cast<size_t>(j)];
      const double whole = norm * old + product;
      const double next = whole > lambda    ? (whole - lambda) / norm
                          : whole < -lambda ? (whole + lambda) / norm
                                            : 0;
      for (size_t i = 0; i < rows.size(); ++i)
        r[static_cast<size_t>(rows[i])] -= (next - old) * values[i];
      largest = std::max(largest, std::abs(next - old));
      old = next;
    }
    if (largest < 1e-12) return b;
  }
  ADD_FAILURE() << "the plain loop did not converge";
  return b;
}

double largest_product(const Problem& problem) {
  double largest = 0;
  for (int64_t j = 0; j < problem.x.columns; ++j) {
    double product = 0;
    for (size_t i = 0; i < problem.x.rows_of(j).size(); ++i)
      product +=
          problem.x.values_of(j)[i] * problem.y[static_cast<size_t>(problem.x.rows_of(j)[i])];
    largest = std::max(largest, std::abs(product));
  }
  return largest;
}

class LassoTest : public testing::Test {
 protected:
  LassoOptions options_of(const Problem& problem, double lambda, Selection selection) const {
    LassoOptions options;
    options.x = folder_.path() / "x.mtx";
    options.y = folder_.path() / "y.mtx";
    write_matrix_market(options.x, problem.x);
    write_matrix_market(options.y, problem.y);
    options.rows = problem.x.rows;
    options.columns = problem.x.columns;
    options.lambda = lambda;
    options.tolerance = 1e-9;
    options.most_passes = 3000;
    options.sets.selection = selection;
    options.sets.size = 8;
    return options;
  }
  static void run(Lasso& program, int workers) {
    const auto crew =
        kerf::tests::inproc_crew(workers, {{"lasso", schedmp::worker_half<LassoWorker>}});
    schedmp::run(program, *crew);
    crew->stop();
  }

 private:
  kerf::tests::TemporaryFolder folder_;
};

TEST_F(LassoTest, FindsWhatAPlainLoopFinds) {
  const Problem problem = problem_of(60, 90, 6, 0.6, 3);
  for (const double part : {0.9, 0.3, 0.02}) {
    const double lambda = part * largest_product(problem);
    const std::vector<double> expected = by_a_plain_loop(problem, lambda);
    const double optimum = objective_of(problem, expected, lambda);
    for (const Selection selection : {Selection::kUniform, Selection::kPriorityFiltered})
      for (const int workers : {1, 2, 3}) {
        LassoOptions options = options_of(problem, lambda, selection);
        options.sets.size = 4;
        Lasso program(options, workers);
        run(program, workers);
        EXPECT_TRUE(program.converged()) << part;
        const double found = objective_of(problem, program.solution(), lambda);
        EXPECT_NEAR(program.history().back().objective, found, 1e-9 * found);
        EXPECT_GE(found, optimum * (1 - 1e-12));
        EXPECT_LE(found, optimum * (1 + 1.1e-9));
        for (size_t j = 0; j < expected.size(); ++j)
          EXPECT_NEAR(program.solution()[j], expected[j], 1e-2) << j;
      }
  }
}

// The gap says no less than what is left to the optimum, at every check.
TEST_F(LassoTest, IsNoFartherFromTheOptimumThanItSays) {
  const Problem problem = problem_of(50, 200, 5, 0.6, 9);
  const double lambda = 0.1 * largest_product(problem);
  const double optimum = objective_of(problem, by_a_plain_loop(problem, lambda), lambda);
  for (const Selection selection : {Selection::kUniform, Selection::kPriorityFiltered}) {
    Lasso program(options_of(problem, lambda, selection), 2);
    run(program, 2);
    int checks = 0;
    for (const ConvergencePoint& point : program.history()) {
      if (!point.gap) continue;
      ++checks;
      EXPECT_LE(point.objective * (1 - *point.gap), optimum * (1 + 1e-12));
    }
    EXPECT_GT(checks, 2);
    EXPECT_EQ(program.history().front().updates, 0);
  }
}

TEST_F(LassoTest, IsZeroWhereThePenaltyIsLarge) {
  const Problem problem = problem_of(30, 20, 4, 0, 4);
  for (const double part : {1.0, 7.0}) {
    LassoOptions options =
        options_of(problem, part * largest_product(problem), Selection::kPriorityFiltered);
    Lasso program(options, 2);
    run(program, 2);
    EXPECT_TRUE(program.converged());
    EXPECT_THAT(program.solution(), testing::Each(0.0));
    EXPECT_EQ(program.history().size(), 1) << "it knows before it begins";
  }
}

// More columns than a message has room for, most of them empty; sets larger than one, too.
TEST_F(LassoTest, HasMessagesOfAnySize) {
  Problem problem = problem_of(40, 30, 5, 0.3, 5);
  const std::vector<double> expected = by_a_plain_loop(problem, 2);
  problem.x.columns = 250'000;
  problem.x.begins.resize(250'001, problem.x.entries());
  for (const Selection selection : {Selection::kUniform, Selection::kPriorityFiltered}) {
    LassoOptions options = options_of(problem, 2, selection);
    options.sets.size = selection == Selection::kUniform ? 90'000 : 3'000;
    options.depth = 1;
    options.most_passes = 60;
    Lasso program(options, 2);
    run(program, 2);
    ASSERT_EQ(program.solution().size(), 250'000);
    if (selection == Selection::kUniform) continue;  // of thirty at once
    EXPECT_TRUE(program.converged());
    for (size_t j = 0; j < expected.size(); ++j)
      EXPECT_NEAR(program.solution()[j], expected[j], 1e-3);
  }
}

TEST_F(LassoTest, RepeatsItselfBySeed) {
  const Problem problem = problem_of(80, 300, 6, 0.6, 8);
  const double lambda = 0.1 * largest_product(problem);
  const auto solution = [&](uint64_t seed) {
    LassoOptions options = options_of(problem, lambda, Selection::kPriorityFiltered);
    options.sets.seed = seed;
    options.tolerance = 1e-4;
    Lasso program(options, 3);
    run(program, 3);
    return program.solution();
  };
  const std::vector<double> first = solution(1);
  EXPECT_EQ(solution(1), first);
  EXPECT_NE(solution(2), first);
}

// All columns are nearly the same, and sets hold many of them.
TEST_F(LassoTest, DivergesByPriorityAloneAndConvergesBehindTheFilter) {
  Problem problem = problem_of(40, 60, 3, 0, 6);
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
  const double lambda = 0.05 * largest_product(problem);
  LassoOptions options = options_of(problem, lambda, Selection::kPriority);
  options.sets.size = 16;
  Lasso alone(options, 2);
  const auto error = kerf::tests::error_of([&] { run(alone, 2); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
  EXPECT_THAT(error->what(), testing::HasSubstr("it diverges"));
  EXPECT_THAT(error->what(), testing::HasSubstr("priority+filter"));

  options.sets.selection = Selection::kPriorityFiltered;
  options.tolerance = 0.01;
  Lasso filtered(options, 2);
  run(filtered, 2);
  EXPECT_TRUE(filtered.converged());
}

TEST_F(LassoTest, StopsWhereItIsTold) {
  const Problem problem = problem_of(80, 400, 6, 0.6, 8);
  LassoOptions options = options_of(problem, 0.001 * largest_product(problem), Selection::kUniform);
  options.tolerance = 0;
  options.most_passes = 3;
  Lasso brief(options, 2);
  run(brief, 2);
  EXPECT_FALSE(brief.converged());
  EXPECT_GE(brief.history().back().updates, 3 * 400);
  EXPECT_LT(brief.history().back().updates, 4 * 400);
  EXPECT_TRUE(brief.history().back().gap) << "it ends with a check";
  options.most_passes = 0;
  options.most_seconds = 0.05;
  Lasso timed(options, 2);
  run(timed, 2);
  EXPECT_GE(timed.history().back().seconds, 0.05);
}

TEST(DualityGap, IsZeroAtTheOptimumOfOneVariable) {
  // x = (1, 0), y = (3, 1), lambda 1: b = 2, r = (1, 1).
  const LassoMoment optimum{2, 4, 2, 1};
  EXPECT_DOUBLE_EQ(primal(optimum, 1), 3);
  EXPECT_DOUBLE_EQ(dual(optimum, 1), 3);
  EXPECT_DOUBLE_EQ(relative_gap(optimum, 1), 0);
  // b = 0: r = y.
  const LassoMoment start{10, 10, 0, 3};
  EXPECT_DOUBLE_EQ(relative_gap(start, 1), (5 - (10.0 / 3 - 5.0 / 9)) / 5);
  EXPECT_EQ(relative_gap({0, 0, 0, 0}, 1), 0) << "y is 0";
}

TEST(Transposed, IsTheSameMatrix) {
  const Problem problem = problem_of(20, 30, 5, 0.5, 2);
  const SparseColumns by_row = transposed(problem.x);
  EXPECT_EQ(by_row.columns, 20);
  EXPECT_EQ(by_row.entries(), problem.x.entries());
  for (int64_t i = 0; i < 20; ++i) EXPECT_TRUE(std::ranges::is_sorted(by_row.rows_of(i)));
  EXPECT_EQ(transposed(by_row), problem.x);
}

}  // namespace
}  // namespace kerf::apps
