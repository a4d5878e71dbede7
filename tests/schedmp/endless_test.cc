// Schedules that go on for ever, and versions of weights: text, proof, staleness; PipeDream and
// what came after it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "schedmp/kept.h"
#include "schedmp/period.h"
#include "schedmp/schedules.h"
#include "schedmp/staircase.h"
#include "schedmp/verify.h"
#include "schedmp/versions.h"
#include "tests/schedmp/named_schedules.h"

namespace kerf::schedmp {
namespace {

using partitioner::chain_of_stages;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using tests::made;

Schedule parse(const std::string& body) {
  return parse_schedule("kerf-schedule 1\nname x\n" + body, "s.txt");
}
const std::string kOneWorker = "workers 1\nmicro-batches 2\nstage 0 on 0\n";
Schedule one_worker(const std::string& rows) { return parse(kOneWorker + rows); }
std::string complaint_of_one(const std::string& rows) {
  return tests::complaint("kerf-schedule 1\nname x\n" + kOneWorker + rows);
}

// ---- text

TEST(Endless, IsAPrologueASteadyPeriodAndALast) {
  EXPECT_EQ(
      write_schedule(made("pipedream", 2, 2)),
      "kerf-schedule 1\nname pipedream\nworkers 2\nmicro-batches 2\nstage 0 on 0\n"
      "stage 1 on 1\n"
      "prologue 0: 0F0\nsteady 0: 0F1 0B0 0U0 0F2 0B1 0U1\nepilogue 0: 0F1 0B0 0U0 0B1 0U1\n"
      "prologue 1:\nsteady 1: 1F0 1B0 1U0 1F1 1B1 1U1\nepilogue 1: 1F0 1B0 1U0 1F1 1B1 1U1\n");
}

TEST(Endless, HasAnEpilogueByItself) {
  const Schedule schedule = one_worker("prologue 0: 0F0\nsteady 0: 0F1 0B0 0U0 0F2 0B1 0U1\n");
  EXPECT_TRUE(schedule.endless());
  EXPECT_EQ(schedule.epilogue, last_period(schedule));
  EXPECT_THAT(check_order(schedule), IsEmpty());
  const std::vector<Action> whole = one_worker("row 0: 0F0 0F1 0B0 0U0 0B1 0U1\n").rows[0];
  EXPECT_EQ(unrolled(schedule, 1).rows[0], whole);
}

TEST(Endless, UnrollsPeriodByPeriod) {
  const Schedule schedule = unrolled(made("pipedream", 2, 1), 3);
  EXPECT_EQ(schedule.micro_batches, 3);
  EXPECT_EQ(write_schedule(schedule),
            "kerf-schedule 1\nname pipedream\nworkers 2\nmicro-batches 3\nstage 0 on 0\n"
            "stage 1 on 1\n"
            "row 0: 0F0 0F1 0B0 0U0 0F2 0B1 0U1 0B2 0U2\n"
            "row 1: 1F0 1B0 1U0 1F1 1B1 1U1 1F2 1B2 1U2\n");
}

TEST(Endless, TextIsComplete) {
  EXPECT_THAT(complaint_of_one("prologue 0:\n"), HasSubstr("steady 0 is missing"));
  EXPECT_THAT(complaint_of_one("steady 0: 0F0\n"), HasSubstr("prologue 0 is missing"));
  EXPECT_THAT(complaint_of_one("row 0: 0F0\nsteady 0: 0F0\n"), HasSubstr("s.txt:7:1: "));
  EXPECT_THAT(complaint_of_one("steady 0: 0F0\nrow 0: 0F0\n"), HasSubstr("has rows, or prologue"));
  EXPECT_THAT(complaint_of_one("steady 0: 0U\n"), HasSubstr("must name a micro-batch"));
  EXPECT_THAT(complaint_of_one("row 0: 0F0@1\n"), HasSubstr("version must be a number from -"));
  EXPECT_THAT(complaint_of_one("row 0: 0W0@0\n"), HasSubstr("reads no weights"));
  EXPECT_THAT(complaint_of_one("steady 0: 0F0 0F1048576\n"), HasSubstr("micro-batch must be"));
}

// ---- proof

TEST(Endless, ReductionsComeBeforeTheirUpdates) {
  EXPECT_THAT(check_order(one_worker("row 0: 0F0 0B0 0U0 0REDUCE_GRAD0 0F1 0B1 0U1\n")),
              Contains(HasSubstr("0REDUCE_GRAD0: comes after the update")));
}

TEST(Endless, EveryMicroBatchHasItsTurnWhateverThePeriods) {
  const auto problems = [](const std::string& rows) { return check_order(one_worker(rows)); };
  EXPECT_THAT(problems("prologue 0:\nsteady 0: 0F0 0B0 0F1 0B1 0U1\n"), IsEmpty());
  // Micro-batch 2 of every second period is forgotten; its first is done twice.
  EXPECT_THAT(problems("prologue 0: 0F0\nsteady 0: 0F1 0B0 0B1 0U1\n"),
              Contains(HasSubstr("0B2: comes before its forward")));
  EXPECT_THAT(problems("prologue 0:\nsteady 0: 0F0 0B0 0F1 0B1 0F2 0U1\n"),
              Contains(HasSubstr("0F2: stands twice")));
}

TEST(Endless, UpdatesTakeWhatIsThere) {
  const auto problems = [](const std::string& row) {
    return check_order(one_worker("row 0: " + row + "\n"));
  };
  EXPECT_THAT(problems("0F0 0B0 0U0 0F1 0B1 0U1"), IsEmpty());
  EXPECT_THAT(problems("0F0 0U0 0B0 0F1 0B1 0U1"),
              Contains(HasSubstr("0U0: comes before every weight gradient")));
  EXPECT_THAT(problems("0F0 0F1 0B0 0B1 0U0 0U1"),
              Contains(HasSubstr("0U0: comes after a weight gradient of a later")));
  EXPECT_THAT(problems("0F0 0B0 0U0 0U0 0F1 0B1 0U1"), Contains(HasSubstr("0U0: stands twice")));
  EXPECT_THAT(problems("0F0 0B0 0U0 0F1 0B1"), Contains(HasSubstr("0U is missing")));
  EXPECT_THAT(problems("0F0 0B0 0U0 0F1 0B1 0U"), Contains(HasSubstr("names no micro-batch")));
}

// Four forwards ahead with one message under way: no single period is long enough to stop in.
TEST(Endless, CirclesAreFoundInLaterPeriods) {
  const Schedule schedule = parse(
      "workers 2\nmicro-batches 1\nstage 0 on 0\nstage 1 on 1\n"
      "prologue 0: 0F0 0F1 0F2 0F3\nsteady 0: 0F4 0B0 0U0\n"
      "prologue 1:\nsteady 1: 1F0 1B0 1U0\n");
  EXPECT_THAT(check_order(schedule), IsEmpty());
  const auto stuck = [&](int periods, int messages) {
    return unfold(unrolled(schedule, periods), chain_of_stages(2), {}, {messages}).stuck;
  };
  EXPECT_THAT(stuck(1, 1), IsEmpty());
  const int periods = proving_periods(schedule);
  EXPECT_THAT(stuck(periods, 1),
              Contains(HasSubstr("worker 0: 0F3: waits for ever until stage 1")));
  EXPECT_EQ(smallest_buffer(unrolled(schedule, periods), chain_of_stages(2)), 2);
  EXPECT_THAT(stuck(10 * periods, 2), IsEmpty());
}

// A text of few words can be ahead by millions of micro-batches.
TEST(Endless, AreNotProvedOverMorePeriodsThanCanBe) {
  Schedule schedule =
      parse("workers 1\nmicro-batches 1\nstage 0 on 0\nprologue 0:\nsteady 0: 0F0 0B0 0U0\n");
  schedule.rows.resize(1 << 12, {{0, ActionKind::kForward, (1 << 20) - 1}});
  schedule.prologue.resize(schedule.rows.size());
  EXPECT_EQ(proving_periods(schedule), (int64_t{1} << 32) + 2);
  EXPECT_THAT(check_order(schedule), ElementsAre(HasSubstr("it is proved over 4294967298")));
}

// ---- versions

TEST(Versions, AreStashedByPipeDream) {
  for (int p = 1; p <= 8; ++p) {
    const std::vector<StageVersions> versions = versions_of(made("pipedream", p, 3));
    for (int stage = 0; stage < p; ++stage)
      EXPECT_EQ(versions[static_cast<size_t>(stage)], (StageVersions{p - stage, p - stage - 1}));
  }
}

TEST(Versions, AreTwoOf2BW) {
  for (int p = 1; p <= 8; ++p)
    for (const int m : {std::max(p - 1, 1), p, 2 * p + 1})
      for (const StageVersions& each : versions_of(made("pipedream-2bw", p, m)))
        EXPECT_EQ(each, (StageVersions{2, 1})) << p << " " << m;
}

TEST(Versions, AreOneOfAmpNet) {
  for (int p = 1; p <= 8; ++p) {
    const std::vector<StageVersions> versions = versions_of(made("ampnet", p, 3));
    for (int stage = 0; stage < p; ++stage)
      EXPECT_EQ(versions[static_cast<size_t>(stage)], (StageVersions{1, p - stage - 1}));
  }
}

TEST(Versions, OfASynchronousScheduleAreOne) {
  for (const StageVersions& each : versions_of(made("zbv", 3, 7)))
    EXPECT_EQ(each, (StageVersions{1, 0}));
}

// A forward that reads an older version makes its gradient as stale, and keeps it until then.
TEST(Versions, MayBeNamed) {
  const auto versions = [](const std::string& row) {
    return versions_of(one_worker("row 0: " + row + "\n"))[0];
  };
  EXPECT_EQ(versions("0F0 0B0 0U0 0F1@-1 0B1 0U1"), (StageVersions{2, 1}));
  EXPECT_EQ(versions("0F0 0F1 0B0 0U0 0B1 0U1"), (StageVersions{2, 1}));
  EXPECT_EQ(versions("0F0 0F1 0B0 0U0 0B1@0 0U1"), (StageVersions{1, 1}));
  EXPECT_EQ(versions("0F0@-5 0B0 0U0 0F1 0B1 0U1"), (StageVersions{1, 0}))
      << "before the first there is the first";
}

// ---- schedules

TEST(PipeDream, IsNeverIdleOnceUnderWay) {
  for (const std::string name : {"pipedream", "pipedream-2bw", "ampnet"})
    for (int p = 1; p <= 8; ++p) {
      const int m = p + 1;
      const Period period = period_of(made(name, p, m), chain_of_stages(p), {});
      EXPECT_NEAR(period.takes, 3 * m, 1e-9) << name << p;
      EXPECT_NEAR(period.bubble, 0, 1e-9) << name << p;
      for (int stage = 0; stage < p; ++stage)
        EXPECT_EQ(peak_activations(unrolled(made(name, p, m), 3))[static_cast<size_t>(stage)],
                  p - stage);
    }
}

// Two micro-batches are under way, and a message takes five: periods of 3 and 13 take turns.
TEST(Period, IsTheMeanOfTurns) {
  const Period period = period_of(made("pipedream", 2, 1), chain_of_stages(2), {{}, 5});
  EXPECT_NEAR(period.takes, 8, 1e-9);
  EXPECT_NEAR(period.bubble, 1 - 3.0 / 8, 1e-9);
}

TEST(PipeDream2BW, NeedsAsManyMicroBatchesAsAStageIsAhead) {
  EXPECT_THAT([] { made("pipedream-2bw", 6, 4); },
              testing::ThrowsMessage<Error>(HasSubstr("needs 5 micro-batches")));
}

// ---- steps

TEST(Endless, AStepIsAPeriodOfWholePeriods) {
  const Schedule endless = made("pipedream", 2, 2);
  const Schedule step = step_of(endless, 6);
  EXPECT_TRUE(step.endless());
  EXPECT_EQ(step.micro_batches, 6);
  for (const int steps : {1, 2, 5})
    EXPECT_EQ(unrolled(step, steps), unrolled(endless, 3 * steps)) << steps;
  EXPECT_THAT([&] { step_of(endless, 5); },
              testing::ThrowsMessage<Error>(HasSubstr("have 2 micro-batches, which make no step")));
  EXPECT_THAT([&] { step_of(endless, 1 << 24); },
              testing::ThrowsMessage<Error>(HasSubstr("8388608 periods have more than")));
  const Schedule ends = gpipe(chain_of_shape("gpipe", 2), 4);
  EXPECT_EQ(step_of(ends, 4), ends);
}

// A period is as short as it may be: of three stages two micro-batches, or the next number that
// goes up in the step's.
TEST(Endless, AStepOfABuiltInOneHasAsManyPeriodsAsThereMayBe) {
  const auto updates_of = [](int micro_batches) {
    const Schedule step =
        make_step("pipedream-2bw", chain_of_shape("pipedream-2bw", 3), micro_batches);
    std::vector<int> updates;
    for (const Action& action : step.rows[0])
      if (action.kind == ActionKind::kUpdate) updates.push_back(action.micro_batch);
    return updates;
  };
  EXPECT_THAT(updates_of(8), testing::ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(updates_of(9), testing::ElementsAre(2, 5, 8));
  EXPECT_THAT([&] { updates_of(7); },
              testing::ThrowsMessage<Error>(HasSubstr("had one update at its end")));
  EXPECT_THAT([&] { updates_of(1); }, testing::ThrowsMessage<Error>(HasSubstr("needs 2")));
}

// What the planner asks: an update for each micro-batch, and versions that wait for gradients.
TEST(Endless, IsInFlightAsItsStepsAre) {
  const auto flights = in_flight_of("pipedream")->of(chain_of_shape("pipedream", 3), 6);
  ASSERT_EQ(flights.size(), 3U);
  for (int stage = 0; stage < 3; ++stage) {
    EXPECT_EQ(flights[static_cast<size_t>(stage)].kept, 3 - stage);
    EXPECT_EQ(flights[static_cast<size_t>(stage)].versions, 3 - stage);
  }
  EXPECT_EQ(in_flight_of("gpipe")->of(chain_of_shape("gpipe", 3), 6)[0].versions, 0);
}

}  // namespace
}  // namespace kerf::schedmp
