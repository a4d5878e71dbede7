// Two replicas of each stage train one model: what each adds to the gradients is summed before the
// update, and the answer is one worker's but for the order of that sum.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "partitioner/plan.h"
#include "partitioner/replicas.h"
#include "runtime/error.h"
#include "schedmp/schedules.h"
#include "tests/schedmp/trained.h"

namespace kerf::schedmp {
namespace {

using partitioner::Model;
using tests::Answer;
using tests::Case;
using tests::train;

void expect_within_rounding(const Answer& a, const Answer& b) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (size_t step = 0; step < a.losses.size(); ++step) {
    EXPECT_NEAR(a.losses[step], b.losses[step], 1e-5 * (1 + std::abs(b.losses[step]))) << step;
    EXPECT_NEAR(a.gradient_norms[step], b.gradient_norms[step], 1e-4 * b.gradient_norms[step]);
  }
  EXPECT_EQ(a.trained_rows, b.trained_rows);
  EXPECT_EQ(a.evaluated_rows, b.evaluated_rows);
  EXPECT_NEAR(a.evaluation_loss, b.evaluation_loss, 1e-4);
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (size_t i = 0; i < a.weights.size(); ++i) {
    ASSERT_EQ(a.weights[i].name, b.weights[i].name);
    const auto* mine = reinterpret_cast<const float*>(a.weights[i].bytes.data());
    const auto* theirs = reinterpret_cast<const float*>(b.weights[i].bytes.data());
    for (size_t at = 0; at < a.weights[i].bytes.size() / sizeof(float); ++at)
      ASSERT_NEAR(mine[at], theirs[at], 1e-4) << a.weights[i].name << " " << at;
  }
}

struct Setting {
  std::string schedule;
  int workers = 2;
  int micro_batches = 4;
};

class Replicated : public testing::TestWithParam<Setting> {};

TEST_P(Replicated, AnswersAsOneWorkerWithinRounding) {
  const auto& [name, workers, micro_batches] = GetParam();
  for (const char* source : {"12-24-18-10-5", "braided", "dropping"}) {
    SCOPED_TRACE(source);
    if (source == std::string("dropping") && workers > 2) continue;  // of four operators
    Case c{source, partitioner::Cut::kLayer, 1, "gpipe", 22, micro_batches, 4};
    const Answer alone = train(c);
    c.workers = workers;
    c.schedule = name;
    c.slots = 7;
    const Answer both_ways = train(c);
    expect_within_rounding(both_ways, alone);
    tests::expect_counted_as_predicted(both_ways);
    tests::expect_memory_as_predicted(both_ways);
    tests::expect_same_when_late(c, both_ways);
    EXPECT_EQ(both_ways.plan.replicas(), 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, Replicated,
                         testing::Values(Setting{"chimera", 2, 4}, Setting{"chimera", 4, 5},
                                         Setting{"dualpipe", 2, 4}, Setting{"dualpipe", 4, 8}),
                         [](const auto& each) {
                           return each.param.schedule + std::to_string(each.param.workers);
                         });

// Any number of them, and any of the micro-batches through each.
TEST(Replicas, MayBeThreeOfOneStage) {
  Case c{"12-24-5", partitioner::Cut::kLayer, 1, "gpipe", 22, 4, 4};
  const Answer alone = train(c);
  c.text =
      "kerf-schedule 1\nname three\nworkers 3\nmicro-batches 4\nstage 0 on 0 and 1 and 2\n"
      "replica 1: 0 2\nreplica 2: 3\nrow 0: 0F1 0B1 0REDUCE_GRAD 0U\n"
      "row 1: 0F0 0F2 0B0 0I2 0W2 0REDUCE_GRAD 0U\nrow 2: 0F3 0B3 0REDUCE_GRAD 0U\n";
  const Answer three = train(c);
  expect_within_rounding(three, alone);
  tests::expect_counted_as_predicted(three);
  tests::expect_memory_as_predicted(three);
}

// Rows go through the replica that has their micro-batch, however many they are.
TEST(Replicas, CountTheRowsOfTheirOwnMicroBatches) {
  const Case of_one{"12-24-18-10-5", partitioner::Cut::kLayer, 1, "gpipe", 22, 4, 4};
  Case c = of_one.with_sizes({12, 1, 4, 5});
  const Answer alone = train(c);
  c.workers = 2;
  for (const char* name : {"chimera", "dualpipe"}) {
    c.schedule = name;
    const Answer both_ways = train(c);
    expect_within_rounding(both_ways, alone);
    tests::expect_counted_as_predicted(both_ways);
    tests::expect_memory_as_predicted(both_ways);
    double seconds = 0;
    for (int replica = 0; replica < 2; ++replica)
      seconds += share_of_replica(both_ways.plan, replica);
    EXPECT_DOUBLE_EQ(seconds, 1);
    const bool first_has_most = both_ways.plan.replica_of[0] == 0;
    EXPECT_GT(share_of_replica(both_ways.plan, first_has_most ? 0 : 1), 0.5);
  }
}

// Stages divided over groups of three, whose partial sums are scattered among them: activations
// stay within a replica.
TEST(Replicas, OfGroupsKeepTheirActivationsToThemselves) {
  Case c{"12-24-18-10-5", partitioner::Cut::kLayer, 1, "gpipe", 22, 4, 3};
  const Answer alone = train(c);
  c.cut = partitioner::Cut::kHybrid;
  c.workers = 6;
  c.schedule = "chimera";
  const Answer groups = train(c);
  expect_within_rounding(groups, alone);
  tests::expect_counted_as_predicted(groups);
  tests::expect_memory_as_predicted(groups);
  c.batch = 8;
  for (const auto& [source, workers] :
       {std::pair("12-24-18-10-5", 6), std::pair("lenet5", 6), std::pair("lenet5", 8)}) {
    c.source = source;
    c.workers = workers;
    const Model model = tests::make_model(source);
    const partitioner::Plan plan = tests::plan_of(model, c);
    for (const partitioner::Route& route : plan.routes)
      if (!is_of_step(model, route)) {
        EXPECT_EQ(plan.division.replica_of(route.from), plan.division.replica_of(route.to))
            << name_of(model, route);
      }
  }
}

// With one micro-batch a replica has none: its share of the gradients is nothing, and it gets the
// new weights.
TEST(Replicas, MayHaveNothingToDo) {
  for (const char* name : {"chimera", "dualpipe"}) {
    Case c{"12-24-18-10-5", partitioner::Cut::kLayer, 1, "gpipe", 22, 1, 3};
    const Answer alone = train(c);
    c.workers = 2;
    c.schedule = name;
    const Answer both = train(c);
    expect_within_rounding(both, alone);
    const Model model = tests::make_model(c.source);
    EXPECT_EQ(partitioner::read_plan(model, partitioner::write_plan(model, both.plan), "its text",
                                     [](const std::string& of) { return in_flight_of(of); }),
              both.plan);
  }
}

TEST(Replicas, OfOtherGroupsThanThePlansAreRefused) {
  Case c{"12-24-18-10-5", partitioner::Cut::kLayer, 2, "chimera"};
  c.text = write_schedule(make_schedule("chimera", chain_of_shape("chimera", 2), 4));
  const std::string stage = "stage 0 on 0 and 1";
  c.text.replace(c.text.find(stage), stage.size(), stage + ",0");
  EXPECT_THAT([&] { tests::plan_of(tests::make_model(c.source), c); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("on 2 workers in replica 1")));
}

// The homes of what both replicas train are halves of it, one at each.
TEST(Replicas, ShareTheStatesOfTheOptimizer) {
  Case c{"12-24-18-10-5", partitioner::Cut::kLayer, 2, "chimera"};
  const Model model = tests::make_model(c.source);
  const partitioner::Plan plan = tests::plan_of(model, c);
  for (const partitioner::ValueId value : model.parameters()) {
    const ops::Layout& homes = plan.layouts[static_cast<size_t>(value)];
    ASSERT_EQ(homes.shares.size(), 2U) << model.value(value).name;
    EXPECT_NE(plan.division.replica_of(homes.shares[0].part),
              plan.division.replica_of(homes.shares[1].part));
  }
  const auto of_schedule = [](const std::string& name) { return in_flight_of(name); };
  for (const auto form : {partitioner::PlanText::kWhole, partitioner::PlanText::kDecisions}) {
    partitioner::Plan read = partitioner::read_plan(
        model, partitioner::write_plan(model, plan, form), "its text", of_schedule);
    EXPECT_EQ(read, plan);
  }
}

TEST(Replicas, OfRunningStatisticsAreRefusedByName) {
  Case c{"filtering", partitioner::Cut::kLayer, 2, "chimera"};
  EXPECT_THAT([&] { tests::plan_of(tests::make_model(c.source), c); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("node bn")));
}

TEST(Replicas, ThatAPlanLacksAreRefused) {
  Case c{"12-24-18-10-5", partitioner::Cut::kLayer, 2, "chimera"};
  const Model model = tests::make_model(c.source);
  const partitioner::Plan plan = tests::plan_of(model, c);
  Schedule schedule = make_schedule("chimera", model, plan);
  EXPECT_THAT(check_fits(schedule, plan), testing::IsEmpty());
  std::ranges::reverse(schedule.replica_of);
  EXPECT_THAT(check_fits(schedule, plan),
              testing::Contains(testing::HasSubstr("micro-batch 0 through replica 1, the plan "
                                                   "through 0")));
  c.schedule = "1f1b";
  EXPECT_THAT(check_fits(make_schedule("chimera", model, plan), tests::plan_of(model, c)),
              testing::Contains(testing::HasSubstr("2 stages in 2 replicas, the plan 2 stages")));
}

}  // namespace
}  // namespace kerf::schedmp
