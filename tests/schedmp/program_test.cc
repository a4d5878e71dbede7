// Programs through the scheduler's loop: any number of workers, any depth, in order.
#include "schedmp/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "apps/least_squares/least_squares.h"
#include "runtime/error.h"
#include "runtime/wire.h"
#include "schedmp/scheduler.h"
#include "tests/support/errors.h"
#include "tests/support/inproc_crew.h"

namespace kerf::schedmp {
namespace {

using apps::LeastSquares;
using apps::LeastSquaresOptions;
using tests::error_of;
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

// Throws where it is told to.
class Throwing : public Program {
 public:
  explicit Throwing(std::string where = {}) : where_(std::move(where)) {}
  std::string name() const override { return "throwing"; }
  std::string job(int) override { return where_; }
  void start(runtime::Workplace&, std::string_view job) override {
    where_ = job;
    throw_at("start");
  }
  std::optional<std::vector<Task>> schedule(int64_t round) override {
    if (round == 3) throw_at("schedule");
    return std::vector<Task>{{0, "x"}};
  }
  void aggregate(int64_t round, std::vector<Result>) override {
    if (round == 3) throw_at("aggregate");
  }
  std::string update(std::string_view) override { return throw_at("update"), "done"; }

 private:
  void throw_at(const std::string& here) const {
    if (here == where_) throw Error(ErrorCode::kUnavailable, "no fuel in " + here, "tank");
  }
  std::string where_;
};

// Schedules `tasks_of(round)` for ever.
class Endless : public Program {
 public:
  using Tasks = std::function<std::vector<Task>(int64_t)>;
  explicit Endless(Tasks tasks_of = {}) : tasks_of_(std::move(tasks_of)) {}
  std::string name() const override { return "endless"; }
  std::optional<std::vector<Task>> schedule(int64_t round) override { return tasks_of_(round); }
  void aggregate(int64_t, std::vector<Result>) override {}
  std::string update(std::string_view) override {
    throw Error(ErrorCode::kUsage, "the third gear is missing");
  }

 private:
  Tasks tasks_of_;
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
      {"throwing", [] { return std::make_unique<Throwing>(); }},
      {"endless", [] { return std::make_unique<Endless>(); }},
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
  EXPECT_EQ(program.ahead, depth - 1) << "so many rounds are under way, and never more";
}

INSTANTIATE_TEST_SUITE_P(WorkersDepthBatch, Loop,
                         testing::Combine(testing::Values(1, 2, 4), testing::Values(1, 3, 16),
                                          testing::Values(1, 8)));

TEST(LoopErrors, AWorkersErrorEndsTheRunAndNamesTheWorker) {
  Broken program;
  const auto crew = inproc_crew(2, programs());
  const auto error = kerf::tests::error_of([&] { run(program, *crew); });
  ASSERT_TRUE(error) << "the error was lost";
  EXPECT_THAT(error->what(), testing::HasSubstr("the third gear is missing"));
  EXPECT_THAT(error->what(), testing::HasSubstr("worker 0"));
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

// Whichever half it is in, it ends the run at once, as it was thrown, and nothing hangs.
TEST(LoopErrors, WhatAProgramThrowsEndsTheRun) {
  for (const std::string where : {"start", "schedule", "update", "aggregate"}) {
    Throwing program(where);
    const auto begin = runtime::Clock::now();
    auto crew = inproc_crew(2, programs());
    const auto thrown = error_of([&] { run(program, *crew); });
    crew.reset();
    ASSERT_TRUE(thrown) << where;
    EXPECT_EQ(thrown->code(), ErrorCode::kUnavailable) << where;
    EXPECT_EQ(thrown->where(), "tank");
    EXPECT_THAT(thrown->message(), testing::HasSubstr("no fuel in " + where));
    EXPECT_LT(runtime::Clock::now() - begin, std::chrono::seconds(5)) << where;
  }
}

TEST(LoopErrors, AnInterruptIsSeenThoughEveryRoundIsEmpty) {
  const auto crew = inproc_crew(1, programs());
  Endless program([&](int64_t round) {
    if (round == 1000) crew->interrupt();
    return std::vector<Task>{};
  });
  const auto thrown = error_of([&] { run(program, *crew); });
  ASSERT_TRUE(thrown);
  EXPECT_EQ(thrown->code(), ErrorCode::kInterrupted);
}

TEST(LoopErrors, AFailureIsSeenThoughEveryFurtherRoundIsEmpty) {
  const auto crew = inproc_crew(1, programs());
  bool sent = false;
  Endless program([&](int64_t) {
    if (!std::exchange(sent, true)) return std::vector<Task>{{0, "x"}};
    return std::vector<Task>{};
  });
  const auto thrown = error_of([&] { run(program, *crew); });
  ASSERT_TRUE(thrown);
  EXPECT_THAT(thrown->message(), testing::HasSubstr("the third gear is missing"));
}

TEST(LoopErrors, TwoTasksOfARoundForOneWorkerAreABug) {
  const auto crew = inproc_crew(2, programs());
  Endless program([](int64_t) { return std::vector<Task>{{1, "a"}, {0, "b"}, {1, "c"}}; });
  const auto thrown = error_of([&] { run(program, *crew); });
  ASSERT_TRUE(thrown);
  EXPECT_EQ(thrown->code(), ErrorCode::kInternal);
  EXPECT_THAT(thrown->message(), testing::HasSubstr("two tasks of round 0 for worker 1"));
}

TEST(LoopErrors, ATaskOfMoreThanAMessageIsABug) {
  const auto crew = inproc_crew(1, programs());
  Endless program([](int64_t) { return std::vector<Task>{{0, std::string(2'000'000, 'x')}}; });
  const auto thrown = error_of([&] { run(program, *crew); });
  ASSERT_TRUE(thrown);
  EXPECT_EQ(thrown->code(), ErrorCode::kInternal);
  EXPECT_THAT(thrown->message(), testing::HasSubstr("belongs into a table or a channel"));
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
