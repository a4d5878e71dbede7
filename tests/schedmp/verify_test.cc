// Verification proves plans that run and refutes schedules that hang, naming who waits for what.
#include "schedmp/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "partitioner/builder.h"
#include "partitioner/cut.h"
#include "partitioner/zoo.h"
#include "schedmp/interpreter.h"
#include "schedmp/schedules.h"

namespace kerf::schedmp {
namespace {

using partitioner::Cut;
using partitioner::Model;
using partitioner::Plan;
using partitioner::PlanRequest;
using testing::HasSubstr;
using testing::IsEmpty;

Model mlp() { return partitioner::make_zoo_model("mlp", {{16, 12, 12, 12, 10}}); }

Plan plan_of(const Model& model, Cut cut, int workers, int micro_batches) {
  PlanRequest request;
  request.cut = cut;
  request.workers = workers;
  request.batch = 32;
  request.micro_batches = micro_batches;
  return std::get<Plan>(partitioner::make_plan(model, request, *partitioner::hold_everything()));
}

Verdict verdict_of(const Plan& plan, const Model& model, const Schedule& schedule, int slots = 1) {
  return verify(model, plan, partitioner::lower(model, plan, lowering_for(schedule)), schedule,
                {.slots = slots});
}

// A rendezvous does where all messages of a time go one way: not between neighbours of a group, and
// not where a value and a gradient cross, as 1F1B has them.
TEST(Verify, ProvesBuiltInSchedulesOnEveryCut) {
  const Model model = mlp();
  for (const Cut cut : {Cut::kLayer, Cut::kFeature, Cut::kHybrid})
    for (int workers = 1; workers <= 4; ++workers)
      for (const std::string name : {"gpipe", "1f1b"}) {
        const Plan plan = plan_of(model, cut, workers, 4);
        const Verdict verdict = verdict_of(plan, model, make_schedule(name, model, plan));
        EXPECT_THAT(verdict.problems, IsEmpty());
        const bool waits =
            name == "1f1b" || std::any_of(plan.stages.begin(), plan.stages.end(),
                                          [](const auto& s) { return s.parts.size() > 1; });
        EXPECT_EQ(verdict.smallest_safe_slots, workers > 1 && waits ? 1 : 0)
            << to_string(cut) << " " << workers << " " << name;
      }
}

// Neighbours exchange slices in a group: a rendezvous would make all of them wait at their first
// send.
TEST(Verify, FindsThatAGroupNeedsASlot) {
  const Model model = mlp();
  const Plan plan = plan_of(model, Cut::kFeature, 3, 2);
  EXPECT_EQ(verdict_of(plan, model, make_schedule("1f1b", model, plan)).smallest_safe_slots, 1);
}

TEST(Verify, APipelineNeedsNoSlotUnderGPipeButHoldsEveryMicroBatch) {
  const Model model = mlp();
  const Plan plan = plan_of(model, Cut::kLayer, 2, 5);
  const Verdict gpipe_verdict = verdict_of(plan, model, gpipe(pipeline_of(model, plan), 5));
  const Verdict other = verdict_of(plan, model, one_f_one_b(pipeline_of(model, plan), 5));
  EXPECT_EQ(gpipe_verdict.smallest_safe_slots, 0);
  EXPECT_THAT(gpipe_verdict.held, testing::Contains(5)) << "the last stage keeps what it received";
  EXPECT_THAT(other.held, testing::Each(1));
  EXPECT_GT(gpipe_verdict.peak_bytes[0], other.peak_bytes[0]);
}

// Worker 0 wants the gradient of micro-batch 0 before it sends 1; worker 1 wants both forwards
// first.
TEST(Verify, NamesTheCircleOfADeadlock) {
  const Model model = mlp();
  const Plan plan = plan_of(model, Cut::kLayer, 2, 2);
  const Schedule schedule = parse_schedule(
      "kerf-schedule 1\nname stuck\nworkers 2\nmicro-batches 2\nstage 0 on 0\nstage 1 on 1\n"
      "row 0: 0F0 0B0 0F1 0B1 0U\n"
      "row 1: 1F0 1F1 1B0 1B1 1U\n",
      "test");
  const Verdict verdict = verdict_of(plan, model, schedule, 8);
  ASSERT_EQ(verdict.problems.size(), 1u);
  EXPECT_THAT(verdict.problems[0], HasSubstr("worker 0 at 0B0 waits for the gradient of"));
  EXPECT_THAT(verdict.problems[0], HasSubstr("worker 1 at 1F1 waits for"));
  EXPECT_EQ(verdict.smallest_safe_slots, -1) << "no number of slots helps";
}

// Stages 1 and 2 share worker 1, which takes all forwards of stage 1 before the first of stage 2:
// four messages wait between them, of which stage 2 holds one at a time, as does stage 1 of the
// gradients.
//
//   worker 1  1F0 1F1 1F2 1F3 2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3 1B0 1B1 1B2 1B3
TEST(Verify, SlotsBoundHowFarASenderRunsAhead) {
  const Model model = mlp();
  Plan plan = plan_of(model, Cut::kLayer, 3, 4);
  plan.binding = {0, 1, 1};
  const Schedule schedule = parse_schedule(
      "kerf-schedule 1\nname ahead\nworkers 2\nmicro-batches 4\n"
      "stage 0 on 0\nstage 1 on 1\nstage 2 on 1\n"
      "row 0: 0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3 0U\n"
      "row 1: 1F0 1F1 1F2 1F3 2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3 1B0 1B1 1B2 1B3 1U 2U\n",
      "test");
  int64_t before = 0;
  for (int slots = 1; slots <= 4; ++slots) {
    const Verdict verdict = verdict_of(plan, model, schedule, slots);
    EXPECT_EQ(verdict.smallest_safe_slots, 3);
    EXPECT_EQ(verdict.ok(), slots >= 3) << slots << " slots";
    if (!verdict.ok()) {
      EXPECT_THAT(verdict.problems, testing::ElementsAre(HasSubstr("waits for a free slot of")))
          << slots;
    }
    EXPECT_GT(verdict.peak_bytes[1], before) << "slots are memory";
    before = verdict.peak_bytes[1];
  }
}

TEST(Verify, RefusesAScheduleForAnotherPlan) {
  const Model model = mlp();
  const Plan plan = plan_of(model, Cut::kLayer, 2, 4);
  EXPECT_THAT(verdict_of(plan, model, gpipe(chain_of({{0}, {1}}), 3)).problems,
              testing::Contains(HasSubstr("micro-batches")));
  EXPECT_THAT(verdict_of(plan, model, gpipe(chain_of({{0}}), 4)).problems,
              testing::Contains(HasSubstr("workers")));
  EXPECT_THAT(verdict_of(plan, model, gpipe(chain_of({{1}, {0}}), 4)).problems,
              testing::Contains("the schedule has stage 0 on the workers 1, the plan on 0"));
  const Plan group = plan_of(model, Cut::kFeature, 2, 4);
  EXPECT_THAT(
      verdict_of(group, model, gpipe(chain_of({{1, 0}}), 4)).problems,
      testing::ElementsAre(HasSubstr("lists the workers of stage 0 as 1,0, the plan as 0,1")));
  EXPECT_FALSE(verdict_of(plan, model, gpipe(pipeline_of(model, plan), 4), 0).ok())
      << "no slot at all";
}

Schedule parse(const std::string& text) {
  return parse_schedule("kerf-schedule 1\nname x\n" + text, "test");
}

TEST(Verify, RefusesWhatARunWouldNotExecute) {
  const auto why = [](const std::string& row) {
    return why_it_cannot_run(
        parse("workers 1\nmicro-batches 2\nstage 0 on 0\nstage 1 on 0\nrow 0: " + row));
  };
  EXPECT_THAT(why("0F0 0OFFLOAD0 0RELOAD0 0B0 0U\n"),
              testing::Optional(HasSubstr("0OFFLOAD0: it can be proved")));
  EXPECT_THAT(
      why("0F0 1F0 1B0 1U0 0B0 0U\n"),
      testing::Optional(HasSubstr("0U names no micro-batch, as other updates do: write 0U1")));
  EXPECT_EQ(why("0F0 1F0 1B0 1U0 0B0@0 0U0\n"), std::nullopt);
}

// What is recomputed is kept anew; what is offloaded is back before it is needed.
TEST(Verify, WhatIsKeptMayBeMovedAndMadeAgain) {
  const auto problems = [](const std::string& row) {
    return check_order(parse("workers 1\nmicro-batches 1\nstage 0 on 0\nrow 0: " + row + " 0U\n"));
  };
  EXPECT_THAT(problems("0F0 0RECOMPUTE0 0B0"), IsEmpty());
  EXPECT_THAT(problems("0F0 0OFFLOAD0 0RELOAD0 0I0 0W0"), IsEmpty());
  EXPECT_THAT(problems("0RECOMPUTE0 0F0 0B0"),
              testing::ElementsAre(HasSubstr("before its forward")));
  EXPECT_THAT(problems("0F0 0B0 0RECOMPUTE0"),
              testing::ElementsAre(HasSubstr("after its input gradient")));
  EXPECT_THAT(problems("0F0 0OFFLOAD0 0B0"), testing::ElementsAre(HasSubstr("RELOAD it before")));
  EXPECT_THAT(problems("0F0 0RELOAD0 0B0"), testing::ElementsAre(HasSubstr("was not offloaded")));
  EXPECT_THAT(problems("0F0 0OFFLOAD0 0OFFLOAD0 0RELOAD0 0B0"),
              testing::ElementsAre(HasSubstr("is offloaded already")));
}

TEST(Verify, GradientsAreReducedOnceBetweenTheLastOfThemAndTheUpdate) {
  const auto problems = [](const std::string& row) {
    return check_order(parse("workers 1\nmicro-batches 1\nstage 0 on 0\nrow 0: " + row + "\n"));
  };
  EXPECT_THAT(problems("0F0 0B0 0REDUCE_GRAD 0U"), IsEmpty());
  EXPECT_THAT(problems("0F0 0REDUCE_GRAD 0B0 0U"),
              testing::ElementsAre(HasSubstr("comes before every weight gradient")));
  EXPECT_THAT(problems("0F0 0B0 0REDUCE_GRAD 0REDUCE_GRAD 0U"),
              testing::ElementsAre(HasSubstr("stands twice")));
  EXPECT_THAT(problems("0F0 0B0 0U 0REDUCE_GRAD"),
              testing::ElementsAre(HasSubstr("comes after the stage's update")));
}

TEST(Verify, TellsTheFirstProblemsAndCountsTheOthers) {
  const auto problems =
      check_order(parse("workers 1\nmicro-batches 1048576\nstage 0 on 0\nrow 0: 0F0 0B0 0U\n"));
  ASSERT_EQ(problems.size(), kMostProblems + 1);
  EXPECT_THAT(problems.back(), HasSubstr("more problems"));
}

// Worker 0 is in both groups; 0 and 1 share stage 0, 0 and 2 share stage 1.
TEST(Verify, MembersOfAGroupAgreeOnTheStagesThatTheyShare) {
  const std::string header =
      "workers 3\nmicro-batches 2\nstage 0 on 0,1\nstage 1 on 0,2\n"
      "row 0: 0F0 1F0 0F1 1F1 1B0 0B0 1B1 0B1 0U 1U\n";
  EXPECT_THAT(check_order(parse(header + "row 1: 0F0 0F1 0B0 0B1 0U\nrow 2: 1F0 1F1 1B0 1B1 1U\n")),
              IsEmpty());
  EXPECT_THAT(check_order(parse(header + "row 1: 0F0 0B0 0F1 0B1 0U\nrow 2: 1F0 1F1 1B0 1B1 1U\n")),
              testing::ElementsAre(HasSubstr("workers 0 and 1 share stage 0 but not the order")));
}

// Stage 2 is on worker 0 again: what stage 1 sends there and back crosses, nothing else does.
TEST(Verify, ProvesStagesThatShareAWorker) {
  const Model model = mlp();
  Plan plan = plan_of(model, Cut::kLayer, 3, 2);
  plan.binding = {0, 1, 0};
  const Schedule schedule = parse(
      "workers 2\nmicro-batches 2\nstage 0 on 0\nstage 1 on 1\nstage 2 on 0\n"
      "row 0: 0F0 0F1 2F0 2B0 2F1 2B1 2U 0B0 0B1 0U\n"
      "row 1: 1F0 1F1 1B0 1B1 1U\n");
  EXPECT_THAT(verdict_of(plan, model, schedule).problems, IsEmpty());
  plan.binding = {0, 0, 1};
  const Schedule own = parse(
      "workers 2\nmicro-batches 2\nstage 0 on 0\nstage 1 on 0\nstage 2 on 1\n"
      "row 0: 0F0 1F0 0F1 1F1 1B0 0B0 1B1 0B1 0U 1U\n"
      "row 1: 2F0 2B0 2F1 2B1 2U\n");
  EXPECT_THAT(verdict_of(plan, model, own).problems, IsEmpty());
  Schedule stuck = own;
  std::swap(stuck.rows[0][0], stuck.rows[0][1]);
  EXPECT_THAT(verdict_of(plan, model, stuck).problems,
              testing::ElementsAre(HasSubstr("worker 0 at 1F0 waits for relu")));
}

}  // namespace
}  // namespace kerf::schedmp
