// Steps that follow each other: what a row has where the pipeline fills, goes on and drains, which
// texts let it go on, and that it costs nothing.
#include "schedmp/steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/format.h"
#include "schedmp/interpreter.h"
#include "schedmp/period.h"
#include "schedmp/schedules.h"
#include "schedmp/simulate.h"
#include "schedmp/simulate_run.h"
#include "schedmp/staircase.h"
#include "schedmp/training/lanes.h"
#include "schedmp/training/rounds.h"
#include "schedmp/verify.h"
#include "schedmp/versions.h"
#include "tests/schedmp/layers.h"
#include "tests/schedmp/named_schedules.h"

namespace kerf::schedmp {
namespace {

using kerf::tests::layers;
using kerf::tests::made;
using kerf::tests::plan_of_layers;
using partitioner::Part;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

constexpr Ramps kFills{.fills = true, .drains = false};
constexpr Ramps kBetween{.fills = false, .drains = false};
constexpr Ramps kDrains{.fills = false, .drains = true};

Schedule two_workers(const std::string& rows, int micro_batches = 2) {
  return parse_schedule(
      kerf::format("kerf-schedule 1\nname x\nworkers 2\nmicro-batches {}\nstage 0 on 0\n"
                   "stage 1 on 1\n{}",
                   micro_batches, rows),
      "test");
}

// What is of micro-batches, as text.
std::string row_text(const std::vector<ListRun>& runs) {
  std::string text;
  for (const ListRun& run : runs)
    if (run.micro_batch >= 0) text += (text.empty() ? "" : " ") + to_string(run.action);
  return text;
}

TEST(Steps, FillGoOnAndDrain) {
  const Schedule schedule = made("pipedream", 2, 2);
  const Steps steps(schedule);
  ASSERT_TRUE(steps.go_on());
  EXPECT_EQ(steps.under_way(), 3);
  EXPECT_EQ(row_text(steps.runs(0, kFills)), "0F0 0F1 0B0 0U0 0F2 0B1 0U1");
  EXPECT_EQ(row_text(steps.runs(0, kBetween)), "0F1 0B0 0U0 0F2 0B1 0U1");
  EXPECT_EQ(row_text(steps.runs(0, kDrains)), "0F1 0B0 0U0 0B1 0U1");
  EXPECT_EQ(row_text(steps.runs(0, {})), "0F0 0F1 0B0 0U0 0B1 0U1");
  for (const ListRun& run : steps.runs(0, kBetween)) {
    if (to_string(run.action) != "0F2") continue;
    EXPECT_EQ(run.step, 1);
    EXPECT_EQ(run.micro_batch, 0);
  }
}

// Nobody waits for what a step came to: it is concluded at its end and heard of at the next one's.
TEST(Steps, AreHeardOfAStepLater) {
  const Schedule schedule = made("pipedream", 2, 2);
  const Steps steps(schedule);
  const auto ends = [&](const Ramps& ramps) {
    std::string text;
    for (const ListRun& run : steps.runs(1, ramps)) {
      if (run.micro_batch >= 0) continue;
      const char* name = run.list == &Part::reduce     ? "reduce"
                         : run.list == &Part::conclude ? "conclude"
                         : run.list == &Part::update   ? "update"
                                                       : "fetch";
      text += kerf::format("{}{} ", name, run.step);
    }
    return text;
  };
  EXPECT_EQ(ends(kFills), "reduce0 conclude0 ");
  EXPECT_EQ(ends(kBetween), "reduce0 conclude0 update-1 fetch-1 ");
  EXPECT_EQ(ends(kDrains), "reduce0 conclude0 update-1 fetch-1 update0 fetch0 ");
  EXPECT_EQ(ends({}), "reduce0 conclude0 update0 fetch0 ");
}

// One behind the other they are the text, unrolled.
TEST(Steps, AreTheUnrolledText) {
  for (const char* name : {"pipedream", "pipedream-2bw", "ampnet"})
    for (const int workers : {1, 2, 4})
      for (const int micro_batches : {6, 8})
        for (const int count : {1, 2, 5}) {
          const Schedule step = make_step(name, chain_of_shape(name, workers), micro_batches);
          const Steps steps(step);
          ASSERT_TRUE(steps.go_on());
          const Schedule whole = unrolled(step, count);
          for (int worker = 0; worker < workers; ++worker) {
            std::vector<Action> row;
            for (int at = 0; at < count; ++at)
              for (const ListRun& run : steps.runs(worker, steps.ramps(at, count))) {
                if (run.micro_batch < 0) continue;
                row.push_back(run.action);
                row.back().micro_batch = (at + run.step) * micro_batches + run.micro_batch;
              }
            EXPECT_EQ(row, whole.rows[static_cast<size_t>(worker)]) << name << count;
          }
        }
}

TEST(Steps, OfAScheduleThatEndsAreAllAlike) {
  const Schedule schedule = made("zb-h1", 3, 4);
  const Steps steps(schedule);
  EXPECT_FALSE(steps.go_on());
  EXPECT_EQ(why_it_drains(schedule), std::nullopt);
  EXPECT_EQ(steps.under_way(), 4);
  EXPECT_EQ(steps.ramps(3, 9), Ramps{});
  EXPECT_EQ(steps.proving_steps(), 1);
}

struct Planned {
  Planned(Schedule of, int slots)
      : schedule(std::move(of)),
        model(layers(schedule.stages())),
        setting({.slots = slots, .optimizer_states = 0}),
        plan(plan_of_layers(model, schedule, setting)),
        parts(lower(model, plan, lowering_for(schedule))) {}
  Verdict verdict() const { return verify(model, plan, parts, schedule, setting); }

  Schedule schedule;
  partitioner::Model model;
  partitioner::Setting setting;
  partitioner::Plan plan;
  std::vector<Part> parts;
};

// ---- what drains at each step's end

TEST(StepsThatDrain, AreAheadByMoreThanAStep) {
  const Schedule schedule = make_step("pipedream", chain_of_shape("pipedream", 4), 2);
  EXPECT_THAT(why_it_drains(schedule),
              Optional(HasSubstr("a stage is 3 micro-batches ahead, and a step has 2")));
  EXPECT_EQ(why_it_drains(step_of(schedule, 4)), std::nullopt);
  EXPECT_EQ(as_it_runs(schedule), unrolled(schedule, 1));
}

TEST(StepsThatDrain, UpdateForTheNext) {
  EXPECT_THAT(
      why_it_drains(two_workers("prologue 0: 0F0 0B0 0U0\nsteady 0: 0F1 0B1 0U1\nprologue 1:\n"
                                "steady 1: 1F0 1B0 1U0\n",
                                1)),
      Optional(HasSubstr("worker 0: 0U1 updates within a step for the next")));
}

TEST(StepsThatDrain, HaveALastPeriodOfItsOwn) {
  const auto why = [](const std::string& last) {
    return why_it_drains(
        two_workers("prologue 0:\nsteady 0: 0F0 0B0 0U0 0F1 0B1 0U1\nepilogue 0: " + last +
                    "\nprologue 1:\nsteady 1: 1F0 1B0 1U0 1F1 1B1 1U1\n"
                    "epilogue 1: 1F0 1B0 1U0 1F1 1B1 1U1\n"));
  };
  EXPECT_EQ(why("0F0 0F1 0B0 0U0 0B1 0U1"), std::nullopt);
  EXPECT_THAT(why("0F0 0F1 0B0 0B1 0U1"), Optional(HasSubstr("U stands elsewhere")));
  EXPECT_THAT(why("0F0 0F1 0RECOMPUTE0 0B0 0U0 0B1 0U1"),
              Optional(HasSubstr("RECOMPUTE stands elsewhere")));
}

// Where losses are added up there is room for a step's.
TEST(StepsThatDrain, ComputeTheLossOfTheNext) {
  const Schedule schedule = two_workers(
      "prologue 0: 0F0 0F1\nsteady 0: 0F2 0B0 0U0 0F3 0B1 0U1\nprologue 1: 1F0\n"
      "steady 1: 1F1 1B0 1U0 1F2 1B1 1U1\n");
  EXPECT_EQ(why_it_drains(schedule), std::nullopt);
  EXPECT_EQ(why_it_drains(schedule, 0), "stage 0 has the loss, and computes that of the next step");
  EXPECT_THAT(why_it_drains(schedule, 1), Optional(HasSubstr("stage 1 has the loss")));
  EXPECT_EQ(as_it_runs(schedule), schedule);
  EXPECT_EQ(as_it_runs(schedule, 1), unrolled(schedule, 1));
  EXPECT_THAT(Planned(schedule, 2).verdict().problems,
              ElementsAre(HasSubstr("its steps cannot go on, and it does not drain: stage 1")));
}

// ---- what going on costs, and needs

TEST(StepsThatGoOn, LeaveNobodyIdle) {
  for (const char* name : {"pipedream", "pipedream-2bw", "ampnet"})
    for (const int workers : {2, 3, 5}) {
      const int micro_batches = 2 * workers;
      const Planned planned(make_step(name, chain_of_shape(name, workers), micro_batches),
                            2 * workers);
      const Verdict verdict = planned.verdict();
      ASSERT_TRUE(verdict.ok()) << verdict.problems.front();
      const SimulatedRun run =
          simulate_run(planned.plan, planned.parts, planned.schedule, {.others = {1, 1, 1}},
                       credits_of(verdict, planned.setting.slots), 12);
      EXPECT_DOUBLE_EQ(run.period(3), 3 * micro_batches) << name << workers;
      EXPECT_DOUBLE_EQ(run.busy, 3 * micro_batches * workers);
      EXPECT_DOUBLE_EQ(
          run.period(3),
          period_of(planned.schedule, partitioner::chain_of_stages(workers), {.others = {1, 1, 1}})
              .takes);
    }
}

// As the planner prices it: two operators of a second each way in the last stage, and one second
// for its weights.
TEST(StepsThatGoOn, TakeWhatTheSlowestStageDoes) {
  constexpr double kNoLimit = 1e30;
  const partitioner::DeviceSpeed second_each{kNoLimit, kNoLimit, 1, kNoLimit, 0};
  const Planned planned(make_step("pipedream", chain_of_shape("pipedream", 3), 6), 4);
  const auto timeline =
      simulate(planned.model, planned.plan, planned.parts, planned.schedule, second_each);
  ASSERT_TRUE(timeline);
  const double most = *std::ranges::max_element(timeline->busy);
  EXPECT_GT(most, 0);
  EXPECT_DOUBLE_EQ(timeline->step_seconds, most);
  const Steps steps(planned.schedule);
  for (int worker = 0; worker < 3; ++worker) {
    const auto& row = timeline->rows[static_cast<size_t>(worker)];
    const std::vector<ListRun> runs = steps.runs(worker, kBetween);
    ASSERT_EQ(row.size(), runs.size());
    for (size_t i = 0; i < row.size(); ++i) EXPECT_EQ(row[i].action, runs[i].action);
  }
}

// Each step by itself is sound; one behind the other the second stage waits for the next step of
// the first, which waits for the gradients of this one.
TEST(StepsThatGoOn, AreProvedOneBehindTheOther) {
  const Schedule circle = parse_schedule(
      "kerf-schedule 1\nname x\nworkers 3\nmicro-batches 1\n"
      "stage 0 on 0\nstage 1 on 1\nstage 2 on 2\n"
      "prologue 0:\nsteady 0: 0F0 0B0 0U0\nprologue 1: 1F0\nsteady 1: 1F1 1B0 1U0\n"
      "prologue 2:\nsteady 2: 2F0 2B0 2U0\n",
      "test");
  const Verdict refuted = Planned(circle, 2).verdict();
  EXPECT_THAT(refuted.problems,
              ElementsAre(AllOf(HasSubstr("deadlock"), HasSubstr("of micro-batch 1"))));
  EXPECT_EQ(refuted.smallest_safe_slots, -1);
  EXPECT_TRUE(Planned(unrolled(circle, 1), 2).verdict().ok());
}

// What is ahead is held while the step ends: as much memory as the text has in flight, whatever
// the number of steps.
TEST(StepsThatGoOn, HoldWhatIsAhead) {
  const Planned planned(make_step("pipedream", chain_of_shape("pipedream", 3), 6), 3);
  const Steps steps(planned.schedule);
  for (int worker = 0; worker < 3; ++worker) {
    const RegionUse use = region_use(parts_of(planned.parts, worker), steps, worker);
    int64_t taken = 0;
    for (const RegionUse::OfList& each : use.lists) taken += each.taken - each.given;
    EXPECT_EQ(taken, 0) << "a step between two others leaves as much as it found";
    EXPECT_EQ(use.before, (use.room / (3 - worker)) * (2 - worker)) << worker;
  }
}

// The oldest version that is read is found, however many steps ago it was the newest.
TEST(StepsThatGoOn, KeepTheVersionsThatAreNamed) {
  const std::string rows = "steady 0: 0F0@-7 0B0 0U0\nprologue 1:\nsteady 1: 1F0 1B0 1U0\n";
  EXPECT_THAT(versions_of(two_workers("prologue 0:\n" + rows, 1)),
              ElementsAre(StageVersions{8, 7}, StageVersions{1, 0}));
}

// ---- where nothing else makes them drain

TEST(DrainPeriod, FollowsFromWhatIsAhead) {
  const auto period = [](const char* name, int workers, int micro_batches) {
    return drain_period_of(make_step(name, chain_of_shape(name, workers), micro_batches));
  };
  EXPECT_EQ(period("pipedream", 4, 4), 75);
  EXPECT_EQ(period("ampnet", 4, 7), 43);
  EXPECT_EQ(period("pipedream-2bw", 3, 4), 50);
  EXPECT_EQ(period("pipedream", 2, 64), 20) << "never less";
  EXPECT_EQ(period("pipedream", 1, 8), 20) << "nothing is ahead";
  EXPECT_EQ(period("1f1b", 4, 4), 0);
}

TEST(DrainPeriod, CostsAHundredthAtMost) {
  const ActionCosts even{.others = {1, 1, 1}};
  const ActionCosts uneven{.stages = {{1, 2, 3}, {5, 1, 1}}, .others = {2, 2, 2}};
  for (const char* name : {"pipedream", "pipedream-2bw", "ampnet"})
    for (const int workers : {2, 3, 5})
      for (const int periods : {2, 4, 7})
        for (const ActionCosts& costs : {even, uneven}) {
          const partitioner::StageGraph chain = partitioner::chain_of_stages(workers);
          const Schedule step =
              make_step(name, chain_of_shape(name, workers), periods * (workers - 1));
          const auto steps = static_cast<int>(drain_period_of(step));
          const double going_on = steps * period_of(step, chain, costs).takes;
          const double drained = bubble(unrolled(step, steps), chain, costs).makespan;
          EXPECT_LE(drained, 1.01 * going_on + 1e-9) << name << workers << periods;
          EXPECT_GT(drained, going_on) << name << workers << periods;
        }
}

// ---- rounds

TEST(Rounds, DrainBehindEverySoManySteps) {
  TrainingOptions options;
  options.batch = 30;
  options.epochs = 3;
  options.evaluate = false;
  Rounds rounds(options, 70, 0, 4);
  std::string drained;
  while (const auto task = rounds.next()) drained += task->ramps.drains ? "|" : "-";
  EXPECT_EQ(drained, "---|---||") << "of nine steps, over the ends of epochs";
}

TEST(Rounds, FillBehindAndDrainBeforeAnEvaluation) {
  TrainingOptions options;
  options.batch = 30;
  options.epochs = 2;
  const auto told = [&](bool evaluate, int64_t steps) {
    options.evaluate = evaluate;
    options.steps = steps;
    Rounds rounds(options, 70, 40);
    std::string text;
    while (const auto task = rounds.next()) {
      if (task->kind == TaskKind::kEvaluate) text += "e";
      if (task->kind == TaskKind::kTrain)
        text += task->ramps.fills && task->ramps.drains ? "<>"
                : task->ramps.fills                     ? "<"
                : task->ramps.drains                    ? ">"
                                                        : "-";
    }
    return text;
  };
  EXPECT_EQ(told(true, -1), "<->ee<->ee");
  EXPECT_EQ(told(false, -1), "<---->") << "over the end of an epoch";
  EXPECT_EQ(told(true, 4), "<->ee<>ee");
  EXPECT_EQ(told(false, 1), "<>");
}

// A save of the best weights so far is another thing to drain before; what comes next is not known
// until an evaluation was judged.
TEST(Rounds, FillBehindTheSaveOfTheBest) {
  TrainingOptions options;
  options.batch = 35;
  options.epochs = 9;
  options.patience = 2;
  options.shards = "somewhere";
  Rounds rounds(options, 70, 20);
  std::string text;
  for (const double loss : {3, 2, 4, 1, 5, 6})
    while (const auto task = rounds.next()) {
      if (task->kind == TaskKind::kSave) text += "s";
      if (task->kind == TaskKind::kTrain) {
        text += task->ramps.fills ? "<" : ">";
        EXPECT_NE(task->ramps.fills, task->ramps.drains);
      }
      if (task->kind != TaskKind::kEvaluate) continue;
      EXPECT_TRUE(rounds.waits());
      text += rounds.judge(loss) ? "E" : "e";
      break;
    }
  EXPECT_FALSE(rounds.next());
  EXPECT_EQ(text, "<>Es<>Es<>e<>Es<>e<>e");
}

}  // namespace
}  // namespace kerf::schedmp
