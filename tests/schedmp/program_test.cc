// Programs through the scheduler's loop: any number of workers, any depth, in order.
#include "schedmp/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "apps/least_squares/least_squares.h"
#include "runtime/error.h"
#include "runtime/wire.h"
#include "schedmp/scheduler.h"
#include "tests/support/inproc_crew.h"

namespace kerf::schedmp {
namespace {

using apps::LeastSquares;
using apps::LeastSquaresOptions;
using tests::inproc_crew;

const ProgramFactories& programs();

// Adds up round * worker; workers that are not asked are not heard.
class Sum : public Program {
 public:
  explicit Sum(int64_t rounds = 0, int workers = 1) : rounds_(rounds), workers_(workers) {}
  std::string name() const override { return "sum"; }
  std::optional<std::vector<Task>> schedule(int64_t round) override {
    if (round == rounds_) return std::nullopt;
    ahead = std::max(ahead, round - folded);
    std::vector<Task> tasks;
    for (int worker = 0; worker < workers_; ++worker)
      if ((round + worker) % 3 != 0) tasks.push_back({worker, runtime::encode(round * worker)});
    return tasks;
  }
  void aggregate(int64_t round, std::vector<Result> results) override {
    EXPECT_EQ(round, folded++);
    for (size_t i = 0; i < results.size(); ++i) {
      if (i > 0) {
        EXPECT_LT(results[i - 1].worker, results[i].worker);
      }
      total += runtime::decode<int64_t>(results[i].payload);
    }
  }
  std::string update(std::string_view task) override {
    return runtime::encode(runtime::decode<int64_t>(task) + 1);
  }

  int64_t total = 0;
  int64_t folded = 0;
  int64_t ahead = 0;

 private:
  int64_t rounds_;
  int workers_;
};

class Broken : public Program {
 public:
  std::string name() const override { return "broken"; }
  std::optional<std::vector<Task>> schedule(int64_t) override {
    return std::vector<Task>{{0, "x"}};
  }
  void aggregate(int64_t, std::vector<Result>) override {}
  std::string update(std::string_view) override {
    throw Error(ErrorCode::kUsage, "the third gear is missing", "gearbox");
  }
};

const ProgramFactories& programs() {
  static const ProgramFactories factories = {
      {"sum", [] { return std::make_unique<Sum>(); }},
      {"broken", [] { return std::make_unique<Broken>(); }},
      {"least-squares", [] { return std::make_unique<LeastSquares>(); }}};
  return factories;
}

class Loop : public testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(Loop, FoldsEveryResultOnceInOrder) {
  const auto [workers, depth, batch] = GetParam();
  constexpr int64_t kRounds = 200;
  int64_t expected = 0, tasks = 0;
  for (int64_t round = 0; round < kRounds; ++round)
    for (int worker = 0; worker < workers; ++worker)
      if ((round + worker) % 3 != 0) {
        expected += round * worker + 1;
        ++tasks;
      }
  Sum program(kRounds, workers);
  const auto crew = inproc_crew(workers, programs());
  const LoopReport report = run(program, *crew, {depth, batch});
  crew->stop();
  EXPECT_EQ(program.total, expected);
  EXPECT_EQ(report.rounds, kRounds);
  EXPECT_EQ(report.tasks, tasks);
  EXPECT_LT(program.ahead, depth) << "never more than `depth` rounds under way";
}

INSTANTIATE_TEST_SUITE_P(WorkersDepthBatch, Loop,
                         testing::Combine(testing::Values(1, 2, 4), testing::Values(1, 3, 16),
                                          testing::Values(1, 8)));

TEST(LoopErrors, AWorkersErrorEndsTheRunAndNamesTheWorker) {
  Broken program;
  const auto crew = inproc_crew(2, programs());
  try {
    run(program, *crew);
    FAIL() << "the error was lost";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("the third gear is missing"));
    EXPECT_THAT(error.what(), testing::HasSubstr("worker 0"));
  }
}

TEST(LoopErrors, AnUnknownProgramIsRefusedByName) {
  Broken program;
  const auto crew = inproc_crew(1, {{"sum", [] { return std::make_unique<Sum>(); }}});
  try {
    run(program, *crew);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("broken"));
  }
}

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
    const auto crew = inproc_crew(workers, programs());
    run(program, *crew, {1, 1});
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
