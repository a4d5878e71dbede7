// Built-in schedules, against their papers: staircases, formulas of time and of memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "runtime/error.h"
#include "schedmp/kept.h"
#include "schedmp/schedules.h"
#include "schedmp/staircase.h"
#include "schedmp/verify.h"
#include "tests/schedmp/named_schedules.h"

namespace kerf::schedmp {
namespace {

using partitioner::chain_of_stages;
using testing::ElementsAre;
using testing::HasSubstr;

Schedule made(const std::string& name, int workers, int micro_batches, int chunks = 0,
              const ActionCosts& costs = {}) {
  return make_schedule(name, chain_of_shape(name, workers, chunks), micro_batches, costs);
}

std::string staircase_of(const Schedule& schedule) {
  return draw_staircase(schedule, chain_of_stages(schedule.stages()));
}

ActionCosts costs_of(double f, double i, double w) { return {{}, 0, {f, i, w}}; }

// What a step takes, less the work of one worker, where all have the same.
double idle_time(const std::string& name, int p, int m, const ActionCosts& costs, int chunks = 0) {
  const Schedule schedule = made(name, p, m, chunks, costs);
  const StageCosts& each = costs.others;
  const double work =
      m * (schedule.stages() / p) * (each.forward + each.input_gradient + each.weight_gradient);
  return bubble(schedule, chain_of_stages(schedule.stages()), costs).makespan - work;
}

int most_kept(const std::string& name, int p, int m, int chunks = 0) {
  const std::vector<int> peaks = peak_activations(made(name, p, m, chunks));
  return *std::max_element(peaks.begin(), peaks.end());
}

// ---- staircases

TEST(Naive, HasOneMicroBatchAtATime) {
  EXPECT_EQ(staircase_of(made("naive", 3, 2)),
            "worker 0  0F0                         0B0     0F1                         0B1     0U\n"
            "worker 1      1F0             1B0                 1F1             1B1     1U\n"
            "worker 2          2F0 2B0                             2F1 2B1     2U\n");
}

TEST(ZbH1, LeavesWeightsUntilNothingElseIsToBeDone) {
  EXPECT_EQ(staircase_of(made("zb-h1", 3, 4)),
            "worker 0  0F0 0F1 0F2         0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3 0U\n"
            "worker 1      1F0 1F1     1I0 1F2 1I1 1W0 1F3 1I2 1W1 1I3 1W2 1W3 1U\n"
            "worker 2          2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3 2U\n");
}

TEST(ZbH2, FillsThePipelineTwice) {
  EXPECT_EQ(
      staircase_of(made("zb-h2", 3, 6)),
      "worker 0  0F0 0F1 0F2 0F3 0F4 0I0 0W0 0F5 0I1 0W1 0I2 0W2 0I3 0W3 0I4 0W4 0I5 0W5 0U\n"
      "worker 1      1F0 1F1 1F2 1I0 1F3 1I1 1F4 1I2 1W0 1F5 1I3 1W1 1I4 1W2 1I5 1W3 1W4 1W5 1U\n"
      "worker 2          2F0 2I0 2F1 2I1 2F2 2I2 2F3 2I3 2F4 2I4 2W0 2F5 2I5 2W1 2W2 2W3 2W4 2W5 "
      "2U\n");
}

TEST(Interleaved, GoesThroughTheChunksInRounds) {
  EXPECT_EQ(staircase_of(made("interleaved", 2, 4)),
            "worker 0  0F0 0F1 2F0 2F1 0F2     2B0     0F3 2B1     2F2 0B0     2F3 0B1         2B2 "
            "        2B3     0B2     0B3     2U 0U\n"
            "worker 1      1F0 1F1 3F0 3B0     3F1 3B1     1F2 1B0     1F3 1B1     3F2 3B2     3F3 "
            "3B3     1B2     1B3     3U 1U\n");
}

TEST(LoopedBfs, FinishesAChunkBeforeTheNext) {
  EXPECT_EQ(staircase_of(made("looped-bfs", 2, 2)),
            "worker 0  0F0 0F1 2F0 2F1             2B0     2B1     0B0     0B1     2U 0U\n"
            "worker 1      1F0 1F1 3F0 3F1 3B0     3B1     1B0     1B1     3U 1U\n");
}

TEST(Zbv, IsNeverIdleBetweenFirstAndLast) {
  EXPECT_EQ(staircase_of(made("zbv", 2, 4)),
            "worker 0  0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0F3 0I0 0W0 3F2 3I2 3W2 0I1 0W1 3F3 3I3 "
            "3W3 0I2 0W2 0I3 0W3 3U 0U\n"
            "worker 1      1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1F3 1I1 1W1 2F3 2I2 2W2 "
            "1I2 2I3 1I3 1W2 2W3 1W3 2U 1U\n");
}

// Each micro-batch goes to the end and back without a stop.
TEST(VMin, RepeatsABlockWithoutWaits) {
  EXPECT_EQ(staircase_of(made("v-min", 2, 3)),
            "worker 0  0F0         3F0 3I0 3W0 0F1 0I0 0W0 3F1 3I1 3W1 0F2 0I1 0W1 3F2 3I2 3W2     "
            "0I2 0W2 3U 0U\n"
            "worker 1      1F0 2F0         2I0 1I0 1F1 2F1 2W0 1W0 2I1 1I1 1F2 2F2 2W1 1W1 2I2 1I2 "
            "2W2 1W2 2U 1U\n");
}

TEST(DualPipeV, PutsForwardsBesideBackwards) {
  EXPECT_EQ(staircase_of(made("dualpipe-v", 2, 4)),
            "worker 0  0F0 0F1 0F2 3F0 3I0 3W0 3F1 0F3 3B1     3F2 0B0     3B2     3F3     0B1     "
            "3B3     0I2 0W2 0I3 0W3 3U 0U\n"
            "worker 1      1F0 2F0 1F1 2F1 1F2 2B0     2F2 1B0     1F3 2B1     2F3 1B1     2B2     "
            "1B2     2I3 1I3 2W3 1W3 2U 1U\n");
}

// ---- time: the papers' formulas, for the costs that they assume

TEST(Formulas, OfIdleTimeHold) {
  const std::vector<ActionCosts> all_costs = {costs_of(1, 1, 1), costs_of(1, 1.25, 0.75),
                                              costs_of(2, 2.5, 1.5)};
  for (const ActionCosts& costs : all_costs)
    for (int p = 1; p <= 8; ++p)
      for (const int m : {2 * p, 2 * p + 1, 3 * p, 4 * p + 3}) {
        const auto [f, i, w, update] = costs.others;
        const auto expect = [&](const std::string& name, double idle, int chunks = 0) {
          EXPECT_NEAR(idle_time(name, p, m, costs, chunks), idle, 1e-9)
              << name << " of " << p << " workers, " << m << " micro-batches, " << f << i << w;
        };
        expect("naive", (p - 1) * m * (f + i + w));
        expect("gpipe", (p - 1) * (f + i + w));
        expect("1f1b", (p - 1) * (f + i + w));
        // Of v chunks, each (p - 1) actions of one chunk.
        for (const int v : {2, 3, 4}) {
          expect("interleaved", (p - 1) * (f + i + w), v);
          expect("looped-bfs", (p - 1) * (f + i + w), v);
        }
        expect("zb-h1", (p - 1) * (f + i - w));
        expect("zb-h2", (p - 1) * std::max(f, f + i - 2 * w));
      }
}

TEST(Formulas, OfSpansHold) {
  for (int p = 1; p <= 8; ++p)
    for (const int m : {2 * p - 1, 2 * p, 3 * p + 1, 4 * p}) {
      for (const std::string name : {"zb-h2", "zbv"}) {
        const Schedule schedule = made(name, p, m);
        EXPECT_NEAR(bubble(schedule, chain_of_stages(schedule.stages())).span, 0, 1e-12)
            << name << p << " " << m;
      }
      // The span is (p - 1)(F + I - 2W) longer than the work.
      const ActionCosts costs = costs_of(1, 1.25, 0.75);
      const Schedule schedule = made("zb-h2", p, m);
      const double extra = (p - 1) * (1 + 1.25 - 2 * 0.75);
      EXPECT_NEAR(bubble(schedule, chain_of_stages(p), costs).span, extra / (3 * m + extra), 1e-12)
          << p << " " << m;
    }
}

// Of F = I = W: the repository's (P / 2 - 1)(F&B + B - 3W) counts an F and a B that overlap as one
// action, whose messages leave at its end; here an F's leave at its own, and half of that is left.
TEST(Formulas, OfDualPipeVHold) {
  for (int p = 1; p <= 8; ++p)
    for (const int m : {2 * p, 2 * p + 1, 4 * p})
      EXPECT_NEAR(idle_time("dualpipe-v", p, m, {}), p - 1, 1e-9) << p << m;
}

// Figures that others published of their own simulators: F = I = W, and 1 : 1.3 : 0.7.
TEST(Zbv, HasItsPublishedBubbles) {
  EXPECT_NEAR(bubble(made("zbv", 4, 8), chain_of_stages(8)).step, 0.0588, 5e-5);
  const ActionCosts uneven = costs_of(1, 1.3, 0.7);
  EXPECT_NEAR(bubble(made("zbv", 8, 32), chain_of_stages(16), uneven).span, 0.042, 5e-4);
  EXPECT_NEAR(bubble(made("1f1b", 8, 32), chain_of_stages(8), uneven).step, 0.1795, 5e-5);
}

// ---- memory: micro-batches of all chunks together, over the chunks

TEST(Formulas, OfMemoryHold) {
  for (int p = 1; p <= 10; ++p)
    for (const int m : {3 * p, 4 * p}) {
      EXPECT_EQ(most_kept("naive", p, m), 1);
      EXPECT_EQ(most_kept("gpipe", p, m), m);
      EXPECT_EQ(most_kept("1f1b", p, m), p);
      EXPECT_EQ(most_kept("zb-h1", p, m), p);
      EXPECT_EQ(most_kept("zb-h2", p, m), 2 * p - 1);
      // p (1 + (p - 1) / (p v)) micro-batches of v chunks
      for (const int v : {2, 3, 4}) EXPECT_EQ(most_kept("interleaved", p, m, v), p * v + p - 1);
      EXPECT_EQ(most_kept("looped-bfs", p, m), 2 * m);
      EXPECT_EQ(most_kept("zbv", p, m), 2 * p);
      EXPECT_EQ(most_kept("dualpipe-v", p, m), 2 * p + 1);
      EXPECT_EQ(most_kept("hanayo", p, m), 2 * p);
      if (p == 1) continue;
      EXPECT_EQ(most_kept("v-half", p, m), (p + 2) / 2 * 2);
      EXPECT_EQ(most_kept("v-min", p, m), (p + 4) / 3 * 2);
    }
}

TEST(VBlocks, AreIdleForLessThan1F1B) {
  for (int p = 3; p <= 12; ++p) {
    const double whole = idle_time("1f1b", p, 4 * p, {}) * 2;  // of stages twice as long
    EXPECT_LE(idle_time("v-half", p, 4 * p, {}), 0.62 * whole) << p;
    EXPECT_LE(idle_time("v-min", p, 4 * p, {}), 0.76 * whole) << p;
  }
}

// Of as many micro-batches as workers: 2(p - 1) gradients of a chunk are all that nobody fills, and
// with two waves the chunks are half as long.
TEST(Hanayo, FillsTheRampsWithItsWaves) {
  for (int p = 2; p <= 8; ++p) {
    EXPECT_NEAR(idle_time("hanayo", p, p, {}), 2 * (p - 1) * 2, 1e-9) << p;
    EXPECT_LE(idle_time("hanayo", p, p, {}, 4) / 2, 0.6 * idle_time("hanayo", p, p, {})) << p;
    for (const int m : {2 * p, 3 * p})
      EXPECT_LE(idle_time("hanayo", p, m, {}), 0.84 * 2 * idle_time("1f1b", p, m, {})) << p << m;
  }
}

// ---- what they are made for

TEST(Shapes, OfOtherPipelinesAreRefusedByName) {
  const auto refusal = [](const std::string& name, const std::vector<std::vector<int>>& groups) {
    try {
      make_schedule(name, chain_of(groups), 4);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal("zbv", {{0}, {1}, {0}, {1}}),
              HasSubstr("schedule zbv places stages there and back (of three workers 0 1 2 2 1 0): "
                        "stage 2 must be where stage 1 is"));
  EXPECT_THAT(refusal("zbv", {{0}, {1}}), HasSubstr("has 2 stages on each worker"));
  EXPECT_THAT(refusal("interleaved", {{0}, {1}, {1}, {0}}), HasSubstr("places stages in turn"));
  EXPECT_THAT(refusal("zb-h1", {{0}, {1}, {0}, {1}}), HasSubstr("has 1 stage on each worker"));
  EXPECT_THAT(refusal("zb-h1", {{0, 1}, {1, 2}}), HasSubstr("worker 1 is in several that differ"));
  EXPECT_THAT(refusal("hanayo", {{0}, {0}, {0}}), HasSubstr("an even number of stages"));
  EXPECT_THAT([] { groups_of_shape("zbv", 4, 3); },
              testing::ThrowsMessage<Error>(HasSubstr("has 2 stages on each worker, not 3")));
}

TEST(Shapes, GroupsActAsOne) {
  const Schedule schedule = make_schedule("zbv", chain_of({{0, 2}, {1, 3}, {1, 3}, {0, 2}}), 3);
  EXPECT_EQ(schedule.rows[0], schedule.rows[2]);
  EXPECT_EQ(schedule.rows[1], schedule.rows[3]);
  EXPECT_EQ(schedule.rows[0], made("zbv", 2, 3).rows[0]);
}

// Each stage reads some of those before it, or none.
partitioner::StageGraph random_graph(int stages, uint32_t seed) {
  std::mt19937 random(seed);
  partitioner::StageGraph graph;
  graph.reads.resize(static_cast<size_t>(stages));
  graph.gradients.resize(static_cast<size_t>(stages));
  for (int stage = 1; stage < stages; ++stage)
    for (int before = 0; before < stage; ++before)
      if (random() % 3 == 0) {
        graph.reads[static_cast<size_t>(stage)].push_back(before);
        graph.gradients[static_cast<size_t>(before)].push_back(stage);
      }
  return graph;
}

TEST(Shapes, TakeStagesThatReadWhicheverOthers) {
  for (const int workers : {2, 3, 4})
    for (const std::string& name : tests::schedules_of(workers, 7))
      for (uint32_t seed = 0; seed < 100; ++seed) {
        const int stages = chain_of_shape(name, workers).graph.stages();
        const auto graph = random_graph(stages, seed);
        Schedule schedule = make_schedule(name, {groups_of_shape(name, workers, 0), graph}, 7);
        EXPECT_THAT(check_order(schedule), testing::IsEmpty()) << name << seed;
        schedule = as_it_is_proved(schedule);
        EXPECT_THAT(unfold(schedule, graph).stuck, testing::IsEmpty()) << name << seed;
      }
}

// Wherever a stage waits for less than the one before it.
TEST(Shapes, TakeAnyGraphOfTheirStages) {
  for (const std::string& name : tests::schedules_of(4, 7)) {
    const auto groups = groups_of_shape(name, 4, 0);
    const int stages = chain_of_shape(name, 4).graph.stages();
    partitioner::StageGraph graph = chain_of_stages(stages);
    graph.reads[static_cast<size_t>(stages) - 1] = {0, stages - 2};  // a skip
    graph.gradients[0] = {1, stages - 1};
    if (stages > 3) {
      graph.reads[2] = {0};  // and a branch
      graph.gradients[1].clear();
    }
    Schedule schedule = make_schedule(name, {groups, graph}, 7);
    EXPECT_THAT(check_order(schedule), testing::IsEmpty()) << name;
    schedule = as_it_is_proved(schedule);
    EXPECT_THAT(unfold(schedule, graph).stuck, testing::IsEmpty()) << name;
  }
}

}  // namespace
}  // namespace kerf::schedmp
