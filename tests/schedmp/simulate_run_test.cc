// Steps of a run by what actions cost: as staircases have it where I and W are apart, and as runs
// have it where they are not.
#include "schedmp/simulate_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "schedmp/schedules.h"
#include "schedmp/staircase.h"
#include "schedmp/training/lanes.h"
#include "schedmp/verify.h"
#include "tests/schedmp/layers.h"
#include "tests/schedmp/named_schedules.h"

namespace kerf::schedmp {
namespace {

using kerf::tests::layers;
using kerf::tests::plan_of_layers;

constexpr int kPlayedSteps = 4;
constexpr int kPlenty = 100;  // slots

struct Played {
  Played(const std::string& name, int workers, int micro_batches, int slots)
      : pipeline(chain_of_shape(name, workers)),
        schedule(make_schedule(name, pipeline, micro_batches)),
        model(layers(schedule.stages())),
        setting({.slots = slots, .optimizer_states = 0}),
        plan(plan_of_layers(model, schedule, setting)),
        parts(lower(model, plan)) {}

  SimulatedRun run(const ActionCosts& costs, int steps = kPlayedSteps) const {
    const Verdict verdict = verify(model, plan, parts, schedule, setting);
    EXPECT_TRUE(verdict.ok());
    return simulate_run(plan, parts, schedule, costs, credits_of(verdict, setting.slots), steps);
  }
  double makespan(const ActionCosts& costs) const {
    return bubble(schedule, pipeline.graph, costs).makespan;
  }

  Pipeline pipeline;
  Schedule schedule;
  partitioner::Model model;
  partitioner::Setting setting;
  partitioner::Plan plan;
  std::vector<partitioner::Part> parts;
};

ActionCosts uneven(int stages) {
  ActionCosts costs;
  for (int stage = 0; stage < stages; ++stage)
    costs.stages.push_back({3.0 + stage % 3, 4.0 - stage % 2, 2.0 + stage % 5});
  return costs;
}

TEST(SimulateRun, IsTheStaircaseWhereIAndWAreApart) {
  int seen = 0;
  for (const std::string& name : kerf::tests::schedules_of_one_replica()) {
    if (!splits_weights(name)) continue;
    const Played played(name, 4, 8, kPlenty);
    const auto& rows = played.schedule.rows;
    if (std::ranges::any_of(rows, [](const auto& row) {
          return std::ranges::any_of(
              row, [](const Action& a) { return a.kind == ActionKind::kBackward; });
        }))
      continue;
    SCOPED_TRACE(name);
    ++seen;
    ActionCosts costs = uneven(played.schedule.stages());
    EXPECT_DOUBLE_EQ(played.run(costs).period(0), played.makespan(costs));
    costs.transfer = 0.25;
    const double period = played.run(costs).period(1);
    EXPECT_GE(period, played.makespan(costs));
    EXPECT_LE(period, played.makespan(costs) + 2 * costs.transfer)
        << "what the step came to goes to one and back, where it is not there or not awaited";
  }
  EXPECT_GE(seen, 3);
}

TEST(SimulateRun, HandsAGradientOnBeforeW) {
  const Played played("gpipe", 2, 1, kPlenty);
  const ActionCosts costs{.others = {1, 1, 2}};
  EXPECT_EQ(played.makespan(costs), 8);
  EXPECT_EQ(played.run(costs).period(0), 6) << "0F 1F 1I 0I 0W";
}

TEST(SimulateRun, BeginsAStepBehindTheUpdates) {
  const Played played("zb-h1", 3, 4, kPlenty);
  const ActionCosts costs = uneven(3);
  const double without = played.run(costs).period(0);
  const auto with_update = [&](size_t stage, double update) {
    ActionCosts more = costs;
    more.stages[stage].update = update;
    return played.run(more).period(0);
  };
  EXPECT_DOUBLE_EQ(with_update(0, 7), without + 7);
  EXPECT_DOUBLE_EQ(with_update(1, 7), without + 7 - costs.stages[0].forward)
      << "it waits for the first forward anyhow";
}

TEST(SimulateRun, GoesBySpeeds) {
  const Played played("1f1b", 2, 4, kPlenty);
  ActionCosts costs{.others = {1, 1, 1}};
  const double alike = played.run(costs).period(0);
  costs.speeds = {2, 2};
  EXPECT_DOUBLE_EQ(played.run(costs).period(0), alike / 2);
}

TEST(SimulateRun, CountsWhatIsComputed) {
  const Played played("1f1b", 2, 4, kPlenty);
  EXPECT_DOUBLE_EQ(played.run({.others = {1, 2, 4, 8}}).busy, 2 * (4 * (1 + 2 + 4) + 8));
}

// All gradients of the second chunk are there before the first of the one before it is wanted.
TEST(SimulateRun, WaitsForAFreeSlot) {
  const Played few("looped-bfs", 4, 8, 2);
  const Played plenty("looped-bfs", 4, 8, kPlenty);
  const ActionCosts costs{.others = {5, 6, 4}};
  EXPECT_GT(few.run(costs).period(0), 1.05 * plenty.run(costs).period(0));
  double before = few.run(costs).period(0);
  for (int slots = 3; slots <= 8; ++slots) {
    const double now = Played("looped-bfs", 4, 8, slots).run(costs).period(0);
    EXPECT_LE(now, before);
    before = now;
  }
  EXPECT_DOUBLE_EQ(before, plenty.run(costs).period(0));
}

TEST(SimulateRun, StepsAreAlikeFromTheFirstOn) {
  const Played played("interleaved", 2, 4, 2);
  const SimulatedRun run = played.run(uneven(4), 6);
  ASSERT_EQ(run.ends.size(), 6U);
  for (size_t step = 1; step < 6; ++step)
    EXPECT_NEAR(run.ends[step] - run.ends[step - 1], run.period(0), 1e-9);
}

}  // namespace
}  // namespace kerf::schedmp
