// Sweeps: each point is what the schedule is by itself, or why there is none.
#include "schedmp/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/error.h"
#include "schedmp/kept.h"
#include "schedmp/period.h"
#include "tests/schedmp/named_schedules.h"

namespace kerf::schedmp {
namespace {

using testing::HasSubstr;

std::vector<SweptPoint> all_of(const Sweep& sweep) {
  return swept(sweep, [](double) {});
}

TEST(Sweep, HasEveryCombinationInOrder) {
  ActionCosts other;
  other.others = {1, 2, 0.5};
  const Sweep sweep{{"1f1b", "zbv"}, {2, 4}, {3, 8}, {{}, other}, 0};
  const auto points = all_of(sweep);
  ASSERT_EQ(points.size(), sweep.points());
  size_t i = 0;
  for (const std::string& name : sweep.schedules)
    for (const int workers : sweep.workers)
      for (size_t costs = 0; costs < 2; ++costs)
        for (const int micro_batches : sweep.micro_batches) {
          const SweptPoint& point = points[i++];
          EXPECT_EQ(std::tie(point.schedule, point.workers, point.micro_batches, point.costs),
                    std::tie(name, workers, micro_batches, costs));
          EXPECT_EQ(point.refused, "");
          const Schedule schedule =
              make_schedule(name, chain_of_shape(name, workers), micro_batches, sweep.costs[costs]);
          const Bubble alone =
              bubble(schedule, partitioner::chain_of_stages(schedule.stages()), sweep.costs[costs]);
          EXPECT_EQ(point.bubble.makespan, alone.makespan);
          EXPECT_EQ(point.bubble.step, alone.step);
          EXPECT_EQ(point.bubble.span, alone.span);
          const std::vector<int> peaks = peak_activations(schedule);
          EXPECT_EQ(point.peak_activations, *std::max_element(peaks.begin(), peaks.end()));
        }
}

TEST(Sweep, OfOneFOneBIsTheFormula) {
  const Sweep sweep{{"1f1b"}, {2, 3, 5}, {1, 2, 4, 8, 16}, {{}}, 0};
  for (const SweptPoint& point : all_of(sweep))
    EXPECT_NEAR(point.bubble.step,
                (point.workers - 1.0) / (point.micro_batches + point.workers - 1), 1e-12);
}

TEST(Sweep, SaysWhatAScheduleRefusesAndGoesOn) {
  ActionCosts of_three_stages;
  of_three_stages.stages.resize(3);
  const auto points = all_of({{"chimera", "1f1b"}, {3, 4}, {4}, {{}, of_three_stages}, 0});
  EXPECT_THAT(points[0].refused, HasSubstr("even number"));
  EXPECT_EQ(points[2].refused, "") << "chimera of four workers";
  EXPECT_THAT(points[3].refused, HasSubstr("the costs are of 3 stages, and it has 4"));
  EXPECT_EQ(points[5].refused, "") << "1f1b of three workers, and costs of as many stages";
  EXPECT_THAT(all_of({{"hanayo"}, {2}, {4}, {{}}, 3}).front().refused, HasSubstr("even number"));
}

TEST(Sweep, OfEndlessSchedulesIsAPeriod) {
  const Sweep sweep{{"pipedream"}, {3}, {5}, {{}}, 0};
  const SweptPoint point = all_of(sweep).front();
  EXPECT_TRUE(point.endless);
  const Schedule endless = tests::made("pipedream", 3, 5);
  EXPECT_EQ(point.bubble.makespan, period_of(endless, partitioner::chain_of_stages(3), {}).takes);
  EXPECT_EQ(point.peak_activations, 3);
}

TEST(Sweep, RefusesWhatIsNoSchedule) {
  EXPECT_THROW(all_of({{"zigzag"}, {2}, {2}, {{}}, 0}), Error);
}

TEST(Sweep, SaysHowFarItIs) {
  std::vector<double> parts;
  const Sweep sweep{{"1f1b"}, {2}, {1, 10, 100}, {{}}, 0};
  swept(sweep, [&](double part) { parts.push_back(part); });
  ASSERT_EQ(parts.size(), 3);
  EXPECT_EQ(parts[0], 0);
  EXPECT_LT(parts[1], 0.1);
  EXPECT_LT(parts[2], 0.2) << "most of it is the last";
  double actions = 0;
  for (const int micro_batches : sweep.micro_batches)
    actions += static_cast<double>(tests::made("1f1b", 2, micro_batches).actions());
  EXPECT_GE(most_actions(sweep), actions);
}

}  // namespace
}  // namespace kerf::schedmp
