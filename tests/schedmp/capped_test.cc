// Schedules under a cap of micro-batches in flight.
#include "schedmp/schedules/capped.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/error.h"
#include "schedmp/kept.h"
#include "schedmp/staircase.h"
#include "schedmp/verify.h"
#include "tests/schedmp/named_schedules.h"
#include "tests/schedmp/sorted_row.h"

namespace kerf::schedmp {
namespace {

using partitioner::chain_of_stages;
using testing::HasSubstr;
using testing::IsEmpty;

int most_of(const Schedule& schedule) {
  const std::vector<int> peaks = peak_activations(schedule);
  return *std::max_element(peaks.begin(), peaks.end());
}

// One stage on each worker always has a place for one more; several may lack one for the way back.
TEST(Capped, HasTheSameActionsAndKeepsWithinTheCap) {
  int refused = 0;
  for (const std::string& name : tests::schedules_of_one_replica())
    for (const int workers : {1, 2, 4, 5})
      for (const int micro_batches : {1, 3, 9}) {
        if (!tests::takes(name, workers, micro_batches)) continue;
        const Schedule whole = tests::made(name, workers, micro_batches);
        const auto graph = chain_of_stages(whole.stages());
        for (int most = 1; most <= most_of(whole) + 1; ++most) {
          Schedule schedule;
          try {
            schedule = capped(whole, {whole.groups, graph}, most);
          } catch (const Error& error) {
            EXPECT_GT(whole.stages(), whole.workers()) << name << ": " << error.what();
            EXPECT_THAT(error.what(), HasSubstr("would wait for ever"));
            EXPECT_LT(most, most_of(whole)) << name;
            ++refused;
            continue;
          }
          EXPECT_LE(most_of(schedule), most) << name;
          EXPECT_THAT(check_order(schedule), IsEmpty()) << write_schedule(schedule);
          EXPECT_THAT(unfold(schedule, graph).stuck, IsEmpty());
          for (size_t worker = 0; worker < whole.rows.size(); ++worker)
            EXPECT_EQ(sorted(schedule.rows[worker]), sorted(whole.rows[worker])) << name;
          EXPECT_TRUE(most < most_of(whole) || schedule.rows == whole.rows) << name;
        }
      }
  EXPECT_GT(refused, 10);
}

Schedule made_within(const std::string& name, int workers, int micro_batches, int most) {
  const Pipeline pipeline = chain_of_shape(name, workers);
  return capped(make_schedule(name, pipeline, micro_batches), pipeline, most);
}

TEST(Capped, MakesWarmUpsShorter) {
  EXPECT_EQ(
      draw_staircase(made_within("1f1b", 3, 4, 2), chain_of_stages(3)),
      "worker 0  0F0 0F1                     0B0     0F2             0B1     0F3             0B2  "
      "       0B3     0U\n"
      "worker 1      1F0 1F1         1B0                 1F2 1B1                 1F3 1B2         "
      "1B3     1U\n"
      "worker 2          2F0 2B0     2F1 2B1                 2F2 2B2                 2F3 2B3     "
      "2U\n");
}

// From ZB-H1's memory to ZB-H2's own, a step takes no longer the more there is, and neither does
// anybody's span. (Of no more micro-batches than workers ramps are all there is.)
TEST(Capped, GoesFromZbH1ToZbH2) {
  for (const int p : {2, 3, 4, 6})
    for (const int m : {2 * p, 5 * p}) {
      const auto graph = chain_of_stages(p);
      EXPECT_EQ(made_within("zb-h2", p, m, p).rows, tests::made("zb-h1", p, m).rows);
      Bubble before = bubble(made_within("zb-h2", p, m, 1), graph);
      for (int most = 2; most <= 2 * p - 1; ++most) {
        const Bubble now = bubble(made_within("zb-h2", p, m, most), graph);
        EXPECT_LE(now.makespan, before.makespan) << p << ", " << m << ", " << most;
        EXPECT_LE(now.span, before.span + 1e-9) << p << ", " << m << ", " << most;
        before = now;
      }
      EXPECT_EQ(made_within("zb-h2", p, m, 2 * p - 1).rows, tests::made("zb-h2", p, m).rows);
    }
}

TEST(Capped, RefusesWhatGoesOnForEver) { EXPECT_THROW(made_within("pipedream", 2, 2, 1), Error); }

}  // namespace
}  // namespace kerf::schedmp
