// Schedules, typed as staircases.
#include "schedmp/schedules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "schedmp/staircase.h"
#include "schedmp/verify.h"
#include "tests/schedmp/named_schedules.h"

namespace kerf::schedmp {
namespace {

using partitioner::chain_of_stages;
using testing::HasSubstr;
using testing::IsEmpty;

// Each stage on a worker of its own.
Pipeline alone(partitioner::StageGraph graph) {
  std::vector<std::vector<int>> groups;
  for (int stage = 0; stage < graph.stages(); ++stage) groups.push_back({stage});
  return {std::move(groups), std::move(graph)};
}
Pipeline chain(int stages) { return alone(chain_of_stages(stages)); }

// Of the schedule's own shape, with as many stages on each worker as it has by itself.
Pipeline pipeline_of(const std::string& name, int workers) { return chain_of_shape(name, workers); }
bool goes_anywhere(const std::string& name) {
  return shape_of(name).placement == Placement::kAnywhere;
}

std::string drawn(const Schedule& schedule) {
  return draw_staircase(schedule, chain_of_stages(schedule.stages()));
}

TEST(GPipe, RunsAllForwardsThenAllBackwards) {
  EXPECT_EQ(drawn(gpipe(chain(3), 3)),
            "worker 0  0F0 0F1 0F2                         0B0     0B1     0B2     0U\n"
            "worker 1      1F0 1F1 1F2             1B0     1B1     1B2     1U\n"
            "worker 2          2F0 2F1 2F2 2B0     2B1     2B2     2U\n");
}

TEST(OneFOneB, AlternatesAfterItsWarmUp) {
  EXPECT_EQ(drawn(one_f_one_b(chain(3), 4)),
            "worker 0  0F0 0F1 0F2                 0B0     0F3 0B1         0B2         0B3     0U\n"
            "worker 1      1F0 1F1         1B0     1F2 1B1     1F3 1B2         1B3     1U\n"
            "worker 2          2F0 2B0     2F1 2B1     2F2 2B2     2F3 2B3     2U\n");
}

TEST(ForwardOnly, HoldsNoBackward) {
  EXPECT_EQ(drawn(forward_only(chain(2), 3)),
            "worker 0  0F0 0F1 0F2\n"
            "worker 1      1F0 1F1 1F2\n");
}

int most_in_flight(const std::vector<Action>& row) {
  int now = 0, most = 0;
  for (const Action& action : row) {
    if (action.kind == ActionKind::kForward) most = std::max(most, ++now);
    if (action.kind == ActionKind::kBackward) --now;
  }
  return most;
}

TEST(OneFOneB, KeepsAtMostDepthMinusStageInFlight) {
  for (int stages = 1; stages <= 6; ++stages)
    for (int micro_batches = 1; micro_batches <= 12; ++micro_batches) {
      const Schedule schedule = one_f_one_b(chain(stages), micro_batches);
      for (int stage = 0; stage < stages; ++stage)
        EXPECT_EQ(most_in_flight(schedule.rows[static_cast<size_t>(stage)]),
                  std::min(micro_batches, stages - stage))
            << "stage " << stage << " of " << stages << ", " << micro_batches << " micro-batches";
    }
}

TEST(InFlight, AgreesWithTheRows) {
  for (const std::string name : {"gpipe", "1f1b"})
    for (int stages = 1; stages <= 5; ++stages)
      for (int micro_batches = 1; micro_batches <= 9; ++micro_batches) {
        const Schedule schedule = make_schedule(name, chain(stages), micro_batches);
        const auto flights = in_flight_of(name)->of(chain(stages), micro_batches);
        for (size_t stage = 0; stage < flights.size(); ++stage)
          EXPECT_EQ(flights[stage].kept, most_in_flight(schedule.rows[stage]));
      }
}

TEST(Schedules, EveryOneOfEverySizeIsLegal) {
  for (int workers = 1; workers <= 6; ++workers)
    for (int micro_batches = 1; micro_batches <= 13; ++micro_batches)
      for (const std::string& name : tests::schedules_of(workers, micro_batches)) {
        const Pipeline pipeline = pipeline_of(name, workers);
        Schedule schedule = make_schedule(name, pipeline, micro_batches);
        EXPECT_THAT(check_order(schedule), IsEmpty()) << name;
        schedule = as_it_is_proved(schedule);
        EXPECT_THAT(unfold(schedule, pipeline.graph).stuck, IsEmpty()) << name;
      }
}

TEST(Schedules, GroupsShareTheirRow) {
  const Schedule schedule = one_f_one_b(chain_of({{0, 2}, {1}}), 2);
  EXPECT_EQ(schedule.rows[0], schedule.rows[2]);
  EXPECT_THAT(check_order(schedule), IsEmpty());
}

// V-shaped, in turns, all on one worker, and groups that share some of their stages: every order is
// legal, and nobody waits for ever.
TEST(Schedules, WorkersMayHaveSeveralStages) {
  const std::vector<std::vector<std::vector<int>>> placements = {
      {{0}, {1}, {1}, {0}}, {{0}, {1}, {0}, {1}}, {{0}, {0}, {0}}, {{0, 1}, {1}, {2}, {0, 1}}};
  for (const auto& groups : placements)
    for (const std::string& name : schedule_names())
      for (const int micro_batches : {1, 2, 5}) {
        if (!goes_anywhere(name)) continue;
        const Schedule schedule = make_schedule(name, chain_of(groups), micro_batches);
        EXPECT_THAT(check_order(schedule), IsEmpty()) << name;
        EXPECT_THAT(unfold(schedule, chain_of_stages(schedule.stages())).stuck, IsEmpty()) << name;
      }
  EXPECT_EQ(drawn(one_f_one_b(chain_of({{0}, {1}, {0}}), 2)),
            "worker 0  0F0 0F1 2F0 2B0     2F1 2B1     0B0     0B1     2U 0U\n"
            "worker 1      1F0 1F1         1B0         1B1     1U\n");
}

TEST(Schedules, RefuseWorkersWithoutAStage) {
  for (const std::string& name : schedule_names()) {
    Pipeline pipeline = chain_of_shape(name, 2);
    for (std::vector<int>& group : pipeline.groups) group[0] *= 2;
    EXPECT_THAT([&] { make_schedule(name, pipeline, 2); },
                testing::ThrowsMessage<Error>(HasSubstr("use every number from 0 to 1")));
  }
}

TEST(Schedules, RefuseNoMicroBatchesAndUnknownNames) {
  EXPECT_THROW(make_schedule("gpipe", chain(2), 0), Error);
  try {
    make_schedule("zigzag", chain(2), 4);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("1f1b"));
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
  }
}

TEST(Bubble, OfSynchronousPipelinesIsTheTextbooks) {
  for (int p = 1; p <= 6; ++p)
    for (int m = p; m <= 12; ++m) {
      const double expected = static_cast<double>(p - 1) / (m + p - 1);
      EXPECT_NEAR(bubble(gpipe(chain(p), m), chain_of_stages(p)).step, expected, 1e-12);
      EXPECT_NEAR(bubble(one_f_one_b(chain(p), m), chain_of_stages(p)).step, expected, 1e-12);
    }
}

// Worker 1 begins a moment late and ends one early, worker 0 has the whole step.
TEST(Bubble, OfSpansLeavesOutTheRamps) {
  const Bubble idle = bubble(gpipe(chain(2), 2), chain_of_stages(2));
  EXPECT_DOUBLE_EQ(idle.step, 1.0 / 3);
  EXPECT_DOUBLE_EQ(idle.span, 1.0 / 3);
  const Bubble forward = bubble(forward_only(chain(3), 4), chain_of_stages(3));
  EXPECT_DOUBLE_EQ(forward.step, 1.0 / 3);
  EXPECT_DOUBLE_EQ(forward.span, 0) << "each is busy from its first action to its last";
}

// Members of a group that have other stages besides come to a stage apart: it is done with the
// last.
TEST(Staircase, WaitsForAllOfAGroup) {
  const Schedule schedule = parse_schedule(
      "kerf-schedule 1\nname x\nworkers 3\nmicro-batches 1\nstage 0 on 0\nstage 1 on 1,0\n"
      "stage 2 on 2\n"
      "row 0: 0F0 1F0\nrow 1: 1F0\nrow 2: 2F0\n",
      "test");
  EXPECT_EQ(draw_staircase(schedule, partitioner::StageGraph{{{}, {}, {1}}, {{}, {}, {}}}),
            "worker 0  0F0 1F0\n"
            "worker 1  1F0\n"
            "worker 2          2F0\n");
}

// A B hands nothing on, between another's I and its W neither.
TEST(InFlight, OfRowsCountsWhatWaitsForItsW) {
  const auto counted = [](const std::string& row) {
    const auto in_flight = in_flight_of(parse_schedule(
        "kerf-schedule 1\nname x\nworkers 1\nmicro-batches 3\nstage 0 on 0\nrow 0: " + row + "\n",
        "test"));
    const partitioner::Flight flight = in_flight->of(chain(1), 3).at(0);
    return std::tuple(flight.kept, flight.kept_for_weights, flight.handed);
  };
  EXPECT_EQ(counted("0F0 0B0 0F1 0B1 0F2 0B2 0U"), std::tuple(1, 1, 0));
  EXPECT_EQ(counted("0F0 0F1 0I1 0B0 0W1 0F2 0B2 0U"), std::tuple(2, 2, 1));
  EXPECT_EQ(counted("0F0 0I0 0F1 0I1 0W0 0W1 0F2 0I2 0W2 0U"), std::tuple(1, 2, 2));
  EXPECT_EQ(counted("0F0 0F1 0F2"), std::tuple(1, 1, 0)) << "nothing is kept for gradients";
}

// check_order refutes each way of being wrong, by name.
struct Wrong {
  const char* row;
  const char* complaint;
};

class CheckOrder : public testing::TestWithParam<Wrong> {};

TEST_P(CheckOrder, NamesWhatIsWrong) {
  const std::string text =
      std::string("kerf-schedule 1\nname x\nworkers 1\nmicro-batches 2\nstage 0 on 0\n") +
      "row 0: " + GetParam().row + "\n";
  EXPECT_THAT(check_order(parse_schedule(text, "test")),
              testing::Contains(HasSubstr(GetParam().complaint)));
}

INSTANTIATE_TEST_SUITE_P(
    Rows, CheckOrder,
    testing::Values(
        Wrong{"0F0 0B0 0B1 0U", "0F1 is missing"},
        Wrong{"0F0 0F1 0F1 0B0 0B1 0U", "0F1: stands twice"},
        Wrong{"0B0 0F0 0F1 0B1 0U", "0B0: comes before its forward"},
        Wrong{"0F0 0F1 0B1 0B0 0U", "weight gradients must go up"},
        Wrong{"0F0 0F1 0I0 0I1 0W0 0U", "0W1 is missing"},
        Wrong{"0F0 0F1 0I0 0I1", "0W0 is missing"}, Wrong{"0F0 0F1 0I0 0I1", "0U is missing"},
        Wrong{"0F0 0F1 0W0 0I0 0I1 0W1 0U", "comes before its input gradient"},
        Wrong{"0F0 0F1 0B0 0U 0B1", "comes before every weight gradient"},
        Wrong{"0F0 0F1 0B0 0B1", "0U is missing"},
        Wrong{"0F0 0F1 0I0 0I0 0I1 0W0 0W1 0U", "0I0: stands twice"},
        Wrong{"0F0 0F1 0B0 0B1 0U 0U", "stands twice"},
        // PyTorch's own check lets this pass: B0, I0 and I1 with no W at two micro-batches.
        Wrong{"0F0 0F1 0B0 0I0 0I1 0U", "0W1 is missing"}));

TEST(CheckOrder, SaysWhichWeightGradientIsNext) {
  EXPECT_THAT(
      check_order(parse_schedule("kerf-schedule 1\nname x\nworkers 1\nmicro-batches 2\n"
                                 "stage 0 on 0\nrow 0: 0F0 0F1 0B1 0B0 0U\n",
                                 "test")),
      testing::ElementsAre(HasSubstr("0B1: weight gradients must go up by micro-batch; 0 "),
                           HasSubstr("0B0: weight gradients must go up by micro-batch; 2 ")));
}

// As who writes rows in code can have them; no text says so.
TEST(CheckOrder, RefusesMicroBatchesThatAreNone) {
  for (const int none : {-1, 2}) {
    Schedule schedule = gpipe(chain(1), 2);
    schedule.rows[0][0].micro_batch = none;
    EXPECT_THAT(check_order(schedule),
                testing::Contains(HasSubstr("there is no such micro-batch")));
  }
}

// Workers 1 and 2 share both stages, and neither is the first of either.
TEST(CheckOrder, LooksAtEveryTwoOfAGroup) {
  EXPECT_THAT(check_order(parse_schedule("kerf-schedule 1\nname x\nworkers 4\nmicro-batches 1\n"
                                         "stage 0 on 0,1,2\nstage 1 on 3,1,2\n"
                                         "row 0: 0F0 0B0 0U\nrow 1: 0F0 1F0 1B0 0B0 0U 1U\n"
                                         "row 2: 1F0 0F0 1B0 0B0 0U 1U\nrow 3: 1F0 1B0 1U\n",
                                         "test")),
              testing::ElementsAre(HasSubstr("workers 1 and 2 share stage")));
}

// A few kilobytes that ask for more than four thousand million actions.
TEST(CheckOrder, CountsWhatNoRowCanHold) {
  std::string text = "kerf-schedule 1\nname x\nworkers 1\nmicro-batches 1048576\n";
  for (int stage = 0; stage < 4096; ++stage) text += kerf::format("stage {} on 0\n", stage);
  EXPECT_THAT(
      check_order(parse_schedule(text + "row 0: 0U\n", "test")),
      testing::ElementsAre(HasSubstr("4096 stages of 1048576 micro-batches are more than")));
}

TEST(Unfold, NamesWhoWaitsForEver) {
  EXPECT_TRUE(unfold(one_f_one_b(chain(3), 4), chain_of_stages(3)).stuck.empty());
  const Schedule stuck = parse_schedule(
      "kerf-schedule 1\nname stuck\nworkers 2\nmicro-batches 2\nstage 0 on 0\nstage 1 on 1\n"
      "row 0: 0F0 0B0 0F1 0B1 0U\n"
      "row 1: 1F0 1F1 1B0 1B1 1U\n",
      "test");
  EXPECT_THAT(unfold(stuck, chain_of_stages(2)).stuck,
              testing::ElementsAre(
                  "worker 0: 0B0: waits for ever for the gradient of micro-batch 0 on stage 1",
                  "worker 1: 1F1: waits for ever for the forward of micro-batch 1 on stage 0"));
}

TEST(CheckOrder, NamesAStageOnNobody) {
  Schedule schedule = gpipe(chain(2), 2);
  schedule.groups[1].push_back(7);
  EXPECT_THAT(check_order(schedule),
              testing::Contains("stage 1 is on a worker that does not exist"));
}

TEST(CheckOrder, SplitBackwardIsLegal) {
  EXPECT_THAT(check_order(parse_schedule("kerf-schedule 1\nname x\nworkers 1\nmicro-batches 2\n"
                                         "stage 0 on 0\nrow 0: 0F0 0I0 0F1 0I1 0W0 0W1 0U\n",
                                         "test")),
              IsEmpty());
}

TEST(Schedules, RefuseMoreActionsThanMemoryHolds) {
  EXPECT_THROW(make_schedule("1f1b", chain(1024), 65536), Error);
  // Each of them has a forward and a backward, and each stage an update.
  const int most = static_cast<int>((kMostActions / 2 - 1) / 2);
  EXPECT_EQ(make_schedule("gpipe", chain(2), most).micro_batches, most);
  EXPECT_THROW(make_schedule("gpipe", chain(2), most + 1), Error);
}

}  // namespace
}  // namespace kerf::schedmp
