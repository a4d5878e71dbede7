// The shipped program that is not training, over any number of workers.
#include "apps/least_squares/least_squares.h"

#include <gtest/gtest.h>

#include <cmath>

#include "schedmp/scheduler.h"
#include "tests/support/inproc_crew.h"

namespace kerf::schedmp {
namespace {

using apps::LeastSquares;
using apps::LeastSquaresOptions;
using tests::inproc_crew;

// The gradient A'(Ax - b) is zero at the optimum, whoever found it.
double gradient_norm(const LeastSquaresOptions& options, const std::vector<double>& x) {
  std::vector<double> gradient(x.size());
  for (int64_t row = 0; row < options.rows; ++row) {
    double residual = -apps::matrix_entry(options, row, options.columns);
    std::vector<double> entries(x.size());
    for (size_t j = 0; j < x.size(); ++j) {
      entries[j] = apps::matrix_entry(options, row, static_cast<int64_t>(j));
      residual += entries[j] * x[j];
    }
    for (size_t j = 0; j < x.size(); ++j) gradient[j] += entries[j] * residual;
  }
  double sum = 0;
  for (const double g : gradient) sum += g * g;
  return std::sqrt(sum);
}

TEST(LeastSquaresProgram, ReachesTheOptimumOnAnyNumberOfWorkers) {
  LeastSquaresOptions options;
  options.rows = 300;
  options.columns = 40;
  options.block = 7;
  options.sweeps = 60;
  for (const int workers : {1, 2, 3}) {
    LeastSquares program(options, workers);
    const auto crew =
        inproc_crew(workers, {{"least-squares", worker_half<apps::LeastSquaresWorker>}});
    run(program, *crew);
    crew->stop();
    EXPECT_TRUE(program.converged());
    EXPECT_LT(gradient_norm(options, program.solution()), 1e-4);
    const std::vector<double>& objectives = program.objectives();
    for (size_t i = 1; i < objectives.size(); ++i)
      EXPECT_LE(objectives[i], objectives[i - 1] * (1 + 1e-12)) << "round " << i;
  }
}

}  // namespace
}  // namespace kerf::schedmp
