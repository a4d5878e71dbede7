// Problems for the Lasso's programs, files of them, and a plain loop that solves them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "apps/data/matrix_market.h"
#include "apps/lasso/lasso_problem.h"
#include "schedmp/scheduler.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/temporary_folder.h"

namespace kerf::tests {

struct Regression {
  apps::SparseColumns x;
  std::vector<double> y;
};

// Each column has `entries` rows; `mixed` of its left neighbour is in it, so that they depend on
// each other. y is made by a few columns.
inline Regression regression_of(int64_t rows, int64_t columns, int64_t entries, double mixed,
                                uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<std::vector<double>> dense(static_cast<size_t>(columns));
  for (auto& column : dense) {
    column.resize(static_cast<size_t>(rows));
    for (int64_t i = 0; i < entries; ++i)
      column[random() % static_cast<uint64_t>(rows)] = normal(random);
  }
  Regression problem;
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

inline double objective_of(const Regression& problem, const std::vector<double>& b, double lambda) {
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
inline std::vector<double> by_a_plain_loop(const Regression& problem, double lambda) {
  const apps::SparseColumns& x = problem.x;
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

inline double largest_product(const Regression& problem) {
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

// Files of a problem, as long as it lives.
class RegressionFiles {
 public:
  explicit RegressionFiles(const Regression& problem) : problem_(problem) {
    apps::write_matrix_market(folder_ / "x.mtx", problem.x);
    apps::write_matrix_market(folder_ / "y.mtx", problem.y);
  }
  apps::LassoProblem asked(double lambda, double tolerance = 1e-9) const {
    apps::LassoProblem asked;
    asked.x = folder_ / "x.mtx";
    asked.y = folder_ / "y.mtx";
    asked.rows = problem_.x.rows;
    asked.columns = problem_.x.columns;
    asked.lambda = lambda;
    asked.tolerance = tolerance;
    asked.most_passes = 3000;
    return asked;
  }

 private:
  const Regression& problem_;
  TemporaryFolder folder_;
};

// That the program converged, to a gap of 1e-9, where a plain loop did.
template <class Program>
void expect_optimum(const Program& program, const Regression& problem, double lambda,
                    const std::vector<double>& expected) {
  EXPECT_TRUE(program.run().converged());
  const double optimum = objective_of(problem, expected, lambda);
  const double found = objective_of(problem, program.solution(), lambda);
  EXPECT_NEAR(objective_of(program.run().points().back()), found, 1e-9 * found);
  EXPECT_GE(found, optimum * (1 - 1e-12));
  EXPECT_LE(found, optimum * (1 + 1.1e-9));
  for (size_t j = 0; j < expected.size(); ++j)
    EXPECT_NEAR(program.solution()[j], expected[j], 1e-3) << j;
}

// Runs the program to its end, over workers in this process.
template <class Worker, class Program>
void run_program(Program& program, int workers) {
  const auto crew = inproc_crew(workers, {{program.name(), schedmp::worker_half<Worker>}});
  schedmp::run(program, *crew);
  crew->stop();
}

}  // namespace kerf::tests
