// When a run down to a gap is over, and how much of its way is behind it.
#include "apps/report/convergence_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "runtime/error.h"
#include "tests/support/errors.h"

namespace kerf::apps {
namespace {

constexpr int64_t kPass = 100;

ConvergenceRun run_of(const ConvergenceLimits& limits) { return {limits, kPass, "x.mtx"}; }

// Gaps fall by factors: from 1 to 0.01, a tenth is half of the way.
TEST(ConvergenceRun, HasGoneAsFarAsItsGapFell) {
  ConvergenceRun run = run_of({.tolerance = 0.01});
  EXPECT_EQ(run.way(), 0);
  EXPECT_FALSE(run.check(1, 0, 100, 1));
  EXPECT_EQ(run.way(), 0);
  EXPECT_FALSE(run.check(2, 100, 10, 0.1));
  EXPECT_NEAR(run.way(), 0.5, 1e-12);
  EXPECT_FALSE(run.check(3, 200, 11, 0.2));
  EXPECT_NEAR(run.way(), 0.5, 1e-12) << "what was reached stays";
  EXPECT_TRUE(run.check(4, 300, 9, 0.01)) << "the tolerance itself is enough";
  EXPECT_TRUE(run.converged());
  EXPECT_EQ(run.way(), 1);
  EXPECT_EQ(gap_of(run.points().back()), 0.01);
  EXPECT_EQ(objective_of(run.points()[2]), 11);
}

TEST(ConvergenceRun, IsNotStalledWhileAnythingGetsBetter) {
  ConvergenceRun run = run_of({.tolerance = 1e-9});
  run.check(1, 0, 100, 0.5);
  // A dual method's objective may rise for long, and its gap too, while the dual one rises.
  for (int i = 1; i <= 60; ++i) {
    const double objective = 100 + i, dual = 50 + 0.01 * i;
    EXPECT_FALSE(run.check(1 + i, 0, objective, 1 - dual / objective)) << i;
  }
  // Here nothing does any more.
  int checks = 0;
  while (!run.check(100 + checks, 0, 200, 1 - 50.0 / 200)) ASSERT_LT(++checks, 100);
  EXPECT_EQ(checks, 19);
  EXPECT_TRUE(run.stalled());
  EXPECT_FALSE(run.converged());
}

TEST(ConvergenceRun, EndsAtItsLimits) {
  ConvergenceRun passes = run_of({.tolerance = 0, .most_passes = 3});
  EXPECT_FALSE(passes.limit_is_reached(3 * kPass - 1));
  EXPECT_TRUE(passes.limit_is_reached(3 * kPass));
  EXPECT_TRUE(passes.check(1, 3 * kPass, 5, 0.5));
  EXPECT_FALSE(passes.converged());
  ConvergenceRun brief = run_of({.tolerance = 0, .most_seconds = 0.01});
  brief.begin();
  std::this_thread::sleep_for(std::chrono::milliseconds(11));
  EXPECT_TRUE(brief.limit_is_reached(0));
}

TEST(ConvergenceRun, KeepsEveryCheckAndSomeNotes) {
  ConvergenceRun run = run_of({});
  int64_t told = 0;
  run.history().observe([&](const HistoryPoint&) { ++told; });
  for (int64_t i = 0; i < kPass; ++i) run.note(i, i, 5);
  run.check(kPass, kPass - 1, 5, 0.5);
  EXPECT_EQ(told, kPass + 1);
  EXPECT_EQ(run.points().size(), 20 + 1) << "twenty in a pass";
}

TEST(ConvergenceRun, BlamesItsFileForWhatIsNoNumber) {
  for (const auto& [objective, gap] : {std::pair(HUGE_VAL, 1.0), {1.0, NAN}}) {
    ConvergenceRun run = run_of({});
    const auto error = tests::error_of([&, o = objective, g = gap] { run.check(1, 0, o, g); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->where(), "x.mtx");
  }
}

}  // namespace
}  // namespace kerf::apps
