// Where idle time goes, and steps whose actions take longer than they should.
#include "schedmp/idle.h"

#include <gtest/gtest.h>

#include <cmath>

#include "schedmp/idle_share.h"
#include "schedmp/schedules.h"
#include "schedmp/staircase.h"
#include "tests/schedmp/named_schedules.h"

namespace kerf::schedmp {
namespace {

using partitioner::chain_of_stages;

std::vector<Idle> idle_times(const Schedule& schedule, const ActionCosts& costs) {
  const partitioner::StageGraph graph = chain_of_stages(schedule.stages());
  return idle_of(schedule, graph, unfold(schedule, graph, costs));
}

// Worker 0: F until 2, then I from 12.5 (what stage 1 computes until 12, and half a unit under way)
// to 15.5, W to 20.5. Worker 1: from 2.5 to 12.
TEST(Idle, IsToldApart) {
  const Schedule schedule = parse_schedule(
      "kerf-schedule 1\nname x\nworkers 2\nmicro-batches 1\nstage 0 on 0\nstage 1 on 1\n"
      "row 0: 0F0 0I0 0W0 0U\nrow 1: 1F0 1B0 1U\n",
      "test");
  const std::vector<Idle> idle = idle_times(schedule, {{{2, 3, 5}, {4, 2.5, 3}}, 0.5, {}});
  EXPECT_DOUBLE_EQ(idle[0].fill, 0);
  EXPECT_DOUBLE_EQ(idle[0].dependency, 10);
  EXPECT_DOUBLE_EQ(idle[0].communication, 0.5);
  EXPECT_DOUBLE_EQ(idle[0].imbalance, 0) << "it is the busiest";
  EXPECT_DOUBLE_EQ(idle[0].drain, 0);
  EXPECT_DOUBLE_EQ(idle[1].fill, 2.5);
  EXPECT_DOUBLE_EQ(idle[1].drain, 8.5);
}

// A stage that has half of the others' work waits for the other half of its time.
TEST(Idle, OfAStageWithLessWorkIsImbalance) {
  const Schedule schedule = one_f_one_b(chain_of({{0}, {1}}), 50);
  const std::vector<Idle> idle = idle_times(schedule, {{{2, 2, 2}, {1, 1, 1}}, 0, {}});
  EXPECT_DOUBLE_EQ(idle[0].imbalance, 0);
  EXPECT_NEAR(idle[1].imbalance, 150, 6);
  EXPECT_NEAR(idle[1].dependency, 0, 6);
}

TEST(Idle, AddsUpToTheBubble) {
  const ActionCosts costs{{}, 0.25, {1, 1.5, 0.5}, {1, 2, 0.5}};
  for (const int micro_batches : {1, 4, 9})
    for (const std::string& name : tests::schedules_of(4, micro_batches)) {
      Schedule schedule = make_schedule(name, chain_of_shape(name, 4), micro_batches);
      if (schedule.endless()) schedule = unrolled(schedule, 2);
      const Bubble expected = bubble(schedule, chain_of_stages(schedule.stages()), costs);
      double total = 0;
      for (const Idle& each : idle_times(schedule, costs)) {
        for (const double part :
             {each.fill, each.dependency, each.communication, each.imbalance, each.drain})
          EXPECT_GE(part, -1e-9) << name;
        total += each.total();
      }
      EXPECT_NEAR(total, expected.step * expected.makespan * 4, 1e-6) << name;
    }
}

// Once in 20: worker 0 is busy from 0 to 20, worker 1 from 11 to 17. What 1F0 needs was computed by
// 0F0, which stands in the row before as 0F2 does in this: by 10 - 20. So 1F0 waits for what was
// under way from -3, where the row before ended, to 11; 1B0 for nothing.
TEST(Idle, OfAStepThatGoesOnIsUntilTheNext) {
  const Schedule rows = parse_schedule(
      "kerf-schedule 1\nname x\nworkers 2\nmicro-batches 2\nstage 0 on 0\nstage 1 on 1\n"
      "row 0: 0F1 0B0\nrow 1: 1F0 1B0\n",
      "test");
  const Unfolded unfolded{{{{0, 10}, {10, 20}}, {{11, 13}, {14, 17}}}, {}};
  const std::vector<Idle> idle = idle_of_period(rows, 1, chain_of_stages(2), unfolded);
  EXPECT_DOUBLE_EQ(idle[0].total(), 0);
  EXPECT_DOUBLE_EQ(idle[1].fill, 0);
  EXPECT_DOUBLE_EQ(idle[1].drain, 0);
  EXPECT_DOUBLE_EQ(idle[1].communication, 15);
  EXPECT_DOUBLE_EQ(idle[1].dependency + idle[1].imbalance, 0);

  const Unfolded late{{{{0, 18}, {18, 20}}, {{11, 13}, {14, 17}}}, {}};
  const std::vector<Idle> waits = idle_of_period(rows, 1, chain_of_stages(2), late);
  EXPECT_DOUBLE_EQ(waits[1].imbalance, 1) << "computed by -2, waited for from -3";
  EXPECT_DOUBLE_EQ(waits[1].communication, 14);
}

// Summed up in another order than time goes by, work may exceed it by its last digits.
TEST(Idle, IsNeverBelowNothing) {
  const double work = 0.1 + 0.2;
  ASSERT_GT(work, 0.3);
  EXPECT_EQ(idle_share(work, 0.3), 0);
  EXPECT_EQ(idle_share(0, 0), 0);
  EXPECT_DOUBLE_EQ(idle_share(1, 4), 0.75);

  const Schedule rows = parse_schedule(
      "kerf-schedule 1\nname x\nworkers 1\nmicro-batches 2\nstage 0 on 0\n"
      "row 0: 0F0 0F1 0B0 0B1\n",
      "test");
  const Unfolded unfolded{{{{0, 0.1}, {0.1, 0.3}, {0.3, 0.4}, {0.4, 0.7}}}, {}};
  for (const double share : {bubble(rows, unfolded).step, bubble(rows, unfolded).span}) {
    EXPECT_GE(share, 0);
    EXPECT_FALSE(std::signbit(share));
  }
  // Of a row that follows itself: 0.1 + (0.7 - 0.1) is not 0.7.
  const Unfolded late{{{{0.1, 0.2}, {0.2, 0.3}, {0.3, 0.4}, {0.4, 0.7}}}, {}};
  for (const Unfolded& each : {unfolded, late}) {
    const Idle idle = idle_of_period(rows, 2, chain_of_stages(1), each)[0];
    for (const double part : {idle.dependency, idle.communication, idle.imbalance})
      EXPECT_GE(part, 0);
  }
}

TEST(Speeds, DivideWhatActionsTake) {
  const Schedule schedule = gpipe(chain_of({{0}, {1}}), 3);
  const auto makespan = [&](const std::vector<double>& speeds) {
    return bubble(schedule, chain_of_stages(2), {{}, 0, {}, speeds}).makespan;
  };
  EXPECT_DOUBLE_EQ(makespan({}), 12);
  EXPECT_DOUBLE_EQ(makespan({1}), 12);
  EXPECT_DOUBLE_EQ(makespan({2, 2}), 6);
  EXPECT_NEAR(makespan({1, 1e9}), 9, 1e-6) << "the first one's work alone";
}

TEST(Jitter, LengthensStepsAsItMay) {
  const Schedule schedule = one_f_one_b(chain_of({{0}, {1}, {2}}), 8);
  const partitioner::StageGraph graph = chain_of_stages(3);
  ActionCosts costs;
  const double steady = bubble(schedule, graph, costs).makespan;
  EXPECT_DOUBLE_EQ(makespan_of_95(schedule, graph, costs), steady);
  costs.jitter = 0.5;
  const double late = makespan_of_95(schedule, graph, costs);
  EXPECT_GT(late, 1.25 * steady) << "more than the mean of any one action";
  EXPECT_LT(late, 1.5 * steady);
  EXPECT_EQ(makespan_of_95(schedule, graph, costs), late) << "drawn by the seed alone";
  costs.seed = 1;
  EXPECT_NE(makespan_of_95(schedule, graph, costs), late);
}

}  // namespace
}  // namespace kerf::schedmp
