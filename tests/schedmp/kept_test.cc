// What workers keep of micro-batches over time, against counting.
#include "schedmp/kept.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/schedmp/named_schedules.h"

namespace kerf::schedmp {
namespace {

using testing::ElementsAre;

Unfolded times(const Schedule& schedule, const ActionCosts& costs) {
  return unfold(schedule, partitioner::chain_of_stages(schedule.stages()), costs);
}

// F counts from its end until the end of its W, or B.
int counted(const Schedule& schedule, const Unfolded& unfolded, size_t worker, double when) {
  int count = 0;
  for (size_t i = 0; i < unfolded.rows[worker].size(); ++i) {
    if (unfolded.rows[worker][i].end > when) continue;
    const ActionKind kind = schedule.rows[worker][i].kind;
    count += kind == ActionKind::kForward ? 1 : 0;
    count -= kind == ActionKind::kBackward || kind == ActionKind::kWeightGradient ? 1 : 0;
  }
  return count;
}

TEST(Kept, IsWhatCountingGives) {
  ActionCosts costs{{}, 0.25, {1, 1.5, 0.5}};
  costs.other_bytes.kept = 10;
  for (const std::string& name : tests::schedules_of(4, 6)) {
    Schedule schedule = tests::made(name, 4, 6);
    if (!schedule.trains()) continue;
    if (schedule.endless()) schedule = unrolled(schedule, 2);
    const Unfolded unfolded = times(schedule, costs);
    const std::vector<int> peaks = peak_activations(schedule);
    for (size_t worker = 0; worker < 4; ++worker) {
      const auto kept = kept_over_time(schedule, unfolded, costs, static_cast<int>(worker));
      ASSERT_FALSE(kept.empty());
      double before = 0;
      for (size_t i = 0; i < kept.size(); ++i) {
        EXPECT_GE(kept[i].time, before);
        before = kept[i].time;
        EXPECT_DOUBLE_EQ(kept[i].bytes, 10.0 * kept[i].micro_batches);
        const bool last_of_its_time = i + 1 == kept.size() || kept[i + 1].time > kept[i].time;
        if (!last_of_its_time) continue;
        EXPECT_EQ(kept[i].micro_batches, counted(schedule, unfolded, worker, kept[i].time))
            << name << " at " << kept[i].time;
      }
      EXPECT_EQ(kept.back().micro_batches, 0) << name;
      EXPECT_EQ(peak_of(kept).micro_batches, peaks[worker]) << name;
    }
  }
}

// Stage 1 keeps three times as much as stage 0: the peak of bytes comes earlier than that of
// micro-batches.
TEST(Kept, HasPeaksOfBothKinds) {
  const Schedule schedule = parse_schedule(
      "kerf-schedule 1\nname x\nworkers 1\nmicro-batches 2\nstage 0 on 0\nstage 1 on 0\n"
      "row 0: 0F0 1F0 1B0 0F1 0B0 1F1 1B1 0B1 1U 0U\n",
      "test");
  ActionCosts costs;
  costs.bytes = {{0, 0, 0, 1}, {0, 0, 0, 3}};
  const auto kept = kept_over_time(schedule, times(schedule, costs), costs, 0);
  const Kept first{1, 1, 1};
  EXPECT_EQ(kept.front(), first);
  const KeptPeak peak = peak_of(kept);
  EXPECT_EQ(peak.micro_batches, 2);
  EXPECT_EQ(peak.time, 2);
  EXPECT_EQ(peak.bytes, 4);
  EXPECT_EQ(peak.time_of_bytes, 2);
}

TEST(Kept, IsGoneWhereItIsOffloadedOrRecomputed) {
  const Schedule schedule = parse_schedule(
      "kerf-schedule 1\nname x\nworkers 1\nmicro-batches 2\nstage 0 on 0\n"
      "row 0: 0F0 0OFFLOAD0 0F1 0RECOMPUTE1 0B1 0RELOAD0 0B0 0U\n",
      "test");
  std::vector<int> counts;
  for (const Kept& each : kept_over_time(schedule, times(schedule, {}), {}, 0))
    counts.push_back(each.micro_batches);
  EXPECT_THAT(counts, ElementsAre(1, 0, 1, 0, 1, 0));
}

}  // namespace
}  // namespace kerf::schedmp
