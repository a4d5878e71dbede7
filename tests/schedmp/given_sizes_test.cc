// Micro-batches of the rows that a person said: any plan has the answer of one worker that has the
// same ones, and a step whose gradients are summed up is the same step, however it is divided. An
// epoch of 70 rows ends with a step of 4, which leaves some micro-batches short, or empty.
#include <gmock/gmock.h>

#include <cmath>

#include "partitioner/complete_plan.h"
#include "schedmp/interpreter.h"
#include "schedmp/schedules.h"
#include "schedmp/search/plan_costs.h"
#include "schedmp/simulate.h"
#include "tests/schedmp/trained.h"

namespace kerf::schedmp {
namespace {

using partitioner::Cut;
using tests::Answer;
using tests::Case;
using tests::train;

const std::vector<int64_t> kSizes{3, 9, 1, 7, 2};

Case given(const std::string& source) { return Case{.source = source}.with_sizes(kSizes); }

class GivenSizes : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(GivenSizes, HaveTheBitsOfOneWorker) {
  const auto& [source, schedule] = GetParam();
  Case c = given(source);
  const Answer alone = train(c);
  c.workers = source == "dropping" ? 2 : 3;
  c.schedule = schedule;
  const Answer together = train(c);
  tests::expect_same_bits(together, alone);
  tests::expect_counted_as_predicted(together);
  tests::expect_memory_as_predicted(together);
  tests::expect_same_when_late(c, together);
  EXPECT_EQ(together.trained_rows, 2 * 70);
  EXPECT_EQ(together.plan.division.largest, 9);
}

INSTANTIATE_TEST_SUITE_P(Layers, GivenSizes,
                         testing::Combine(testing::Values("12-24-18-10-5", "braided", "filtering",
                                                          "dropping"),
                                          testing::Values("gpipe", "1f1b", "zb-h1")));

void expect_close(const Answer& a, const Answer& b) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (size_t step = 0; step < a.losses.size(); ++step)
    EXPECT_NEAR(a.losses[step], b.losses[step], 1e-5 * b.losses[step]) << step;
  EXPECT_NEAR(a.evaluation_loss, b.evaluation_loss, 1e-5 * b.evaluation_loss);
}

class GivenSizesOfACut : public testing::TestWithParam<Cut> {};

// Samples are divided as of the largest: of shorter ones some parts have none.
TEST_P(GivenSizesOfACut, AnswerAsOneWorker) {
  Case c = given("12-24-18-10-5");
  const Answer alone = train(c);
  c.cut = GetParam();
  c.workers = 4;
  if (c.cut == Cut::kFree) c.shares = R"({"kerf_shares": 1, "shares": {}})";
  const Answer divided = train(c);
  expect_close(divided, alone);
  tests::expect_counted_as_predicted(divided);
  tests::expect_memory_as_predicted(divided);
}

INSTANTIATE_TEST_SUITE_P(Cuts, GivenSizesOfACut,
                         testing::Values(Cut::kFeature, Cut::kBatch, Cut::kHybrid, Cut::kFree),
                         [](const auto& each) { return std::string(to_string(each.param)); });

TEST(GivenRows, OnlyDivideAStep) {
  for (const char* source : {"12-24-18-10-5", "braided"}) {
    Case even{.source = source, .batch = 22, .micro_batches = 5};
    expect_close(train(given(source)), train(even));
  }
}

// GPipe on two workers.
struct Filled {
  Case c;
  partitioner::Model model;
  partitioner::Plan plan;
  Schedule schedule;
  std::vector<partitioner::Part> parts;
};
Filled filled(const std::string& source, const std::vector<int64_t>& sizes = kSizes) {
  Case c = given(source).with_sizes(sizes);
  c.workers = 2;
  const auto model = tests::make_model(source);
  const auto plan = tests::plan_of(model, c);
  const Schedule schedule = make_schedule("gpipe", model, plan);
  return {c, model, plan, schedule, lower(model, plan, lowering_for(schedule))};
}

// By row, what takes no time but for its rows takes as long as a micro-batch has of them.
TEST(GivenRows, TakeTheirOwnTime) {
  constexpr double kNoLimit = 1e30;
  const partitioner::DeviceSpeed by_row{1e6, kNoLimit, 0, kNoLimit, 0};
  const auto [c, model, plan, schedule, parts] = filled("12-24-18-10-5");
  const auto timeline = simulate(model, plan, parts, schedule, by_row);
  ASSERT_TRUE(timeline);
  double of_a_row = 0;
  for (const Moment& moment : timeline->rows[0]) {
    if (moment.action.kind != ActionKind::kForward) continue;
    const auto rows = static_cast<double>(kSizes[static_cast<size_t>(moment.action.micro_batch)]);
    if (of_a_row == 0) of_a_row = moment.busy / rows;
    EXPECT_NEAR(moment.busy, of_a_row * rows, 1e-9 * moment.busy) << to_string(moment.action);
  }
  EXPECT_GT(of_a_row, 0);
}

// On the graph of the stages alone, too: of the largest what it is simulated to take, and together
// what the others are.
TEST(GivenRows, AreSharesOfWhatTheLargestCosts) {
  const auto [c, model, plan, schedule, parts] = filled("braided");
  const ActionCosts costs = costs_of_plan(model, plan, parts);
  ASSERT_EQ(costs.shares.size(), kSizes.size());
  EXPECT_EQ(costs.shares[1], MicroBatchShare());
  EXPECT_DOUBLE_EQ(costs.of({0, ActionKind::kForward, 1}), costs.stages[0].forward);
  EXPECT_GT(costs.stages[0].forward, 0);
  const auto timeline =
      simulate(model, plan, parts, schedule, partitioner::request_of_plan(plan).speed);
  ASSERT_TRUE(timeline);
  for (int micro_batch = 0; micro_batch < plan.micro_batches; ++micro_batch) {
    double simulated = 0, shared = 0;
    for (const auto& row : timeline->rows)
      for (const Moment& moment : row) {
        if (moment.action.micro_batch != micro_batch) continue;
        simulated += moment.busy;
        shared += costs.of(moment.action);
      }
    EXPECT_NEAR(shared, simulated, 1e-6 * simulated) << micro_batch;
    const MicroBatchShare share = costs.share_of(micro_batch);
    EXPECT_DOUBLE_EQ(share.bytes,
                     static_cast<double>(kSizes[static_cast<size_t>(micro_batch)]) / 9);
    EXPECT_GE(share.seconds, share.bytes) << "calls take time that no row adds to";
  }
  const Filled other = filled("braided", {9, 3, 1, 7, 2});
  const ActionCosts same = costs_of_plan(other.model, other.plan, other.parts);
  EXPECT_NEAR(same.stages[0].forward, costs.stages[0].forward, 1e-9 * costs.stages[0].forward)
      << "whichever is the largest";
  Case even = c;
  even.given_sizes = {};
  EXPECT_THAT(shares_of(tests::plan_of(model, even)), testing::IsEmpty());
}

}  // namespace
}  // namespace kerf::schedmp
