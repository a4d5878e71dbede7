// Schedules that update weights within the step: every plan of them has the bits of one worker that
// runs the same text, and what that text says is computed once more by a plain loop.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "runtime/error.h"
#include "schedmp/interpreter.h"
#include "schedmp/schedules.h"
#include "schedmp/training/row_order.h"
#include "schedmp/versions.h"
#include "tests/schedmp/one_row.h"
#include "tests/schedmp/plain_perceptron.h"
#include "tests/schedmp/trained.h"

namespace kerf::schedmp {
namespace {

using partitioner::Cut;
using partitioner::Model;
using partitioner::Plan;
using tests::Answer;
using tests::Case;
using tests::train;

// So deep that each of three stages has weights.
constexpr const char* kDeep = "12-64-64-64-64-64-5";

Schedule step(const std::string& name, int workers, int micro_batches) {
  return make_step(name, chain_of_shape(name, workers), micro_batches);
}

void expect_bits_of_one_worker(Case c, const Schedule& schedule) {
  c.text = write_schedule(on_one_worker(schedule));
  const Answer alone = train(c);
  c.text = write_schedule(schedule);
  c.workers = schedule.workers();
  const Answer together = train(c);
  tests::expect_same_bits(alone, together);
  EXPECT_EQ(alone.gradient_norms, together.gradient_norms);
  tests::expect_counted_as_predicted(together);
  tests::expect_memory_as_predicted(together);
  tests::expect_same_when_late(c, together);
}

class Asynchronous : public testing::TestWithParam<std::tuple<std::string, std::string, int>> {};

TEST_P(Asynchronous, HasTheBitsOfOneWorkerOfTheSameText) {
  const auto& [source, name, workers] = GetParam();
  const Schedule schedule = step(name, workers, 6);
  ASSERT_TRUE(schedule.updates_within());
  expect_bits_of_one_worker({.source = source, .micro_batches = 6, .steps = 5, .slots = 3},
                            schedule);
}

TEST_P(Asynchronous, HasThoseBitsWhereItsMicroBatchesVary) {
  const auto& [source, name, workers] = GetParam();
  expect_bits_of_one_worker(
      Case{.source = source, .steps = 5, .slots = 3}.with_sizes({8, 1, 4, 2, 6, 1}),
      step(name, workers, 6));
}

INSTANTIATE_TEST_SUITE_P(Schedules, Asynchronous,
                         testing::Combine(testing::Values(kDeep, "braided", "filtering",
                                                          "dropping"),
                                          testing::Values("pipedream", "pipedream-2bw", "ampnet"),
                                          testing::Values(2, 3)));
INSTANTIATE_TEST_SUITE_P(Deep, Asynchronous,
                         testing::Combine(testing::Values(kDeep),
                                          testing::Values("pipedream", "ampnet"),
                                          testing::Values(6)));

// On one worker, where nothing is late, updates within a step are those of as many small steps:
// the optimizer's count, statistics, norms and the rows that a gradient is the mean over. An epoch
// of 70 rows ends with a step of one, whose other updates are none.
class SmallSteps : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(SmallSteps, AreUpdatesWithinAStep) {
  const auto& [source, optimizer] = GetParam();
  Case c{.source = source, .schedule = "pipedream", .batch = 23, .micro_batches = 23, .steps = 4};
  if (optimizer != "momentum") c.optimizer = {.name = optimizer, .learning_rate = 0.003};
  const Answer within = train(c);
  c.schedule = "1f1b";
  c.batch = c.micro_batches = 1;
  c.steps = 70;
  const Answer steps = train(c);
  ASSERT_EQ(within.weights.size(), steps.weights.size());
  for (size_t i = 0; i < steps.weights.size(); ++i)
    EXPECT_TRUE(within.weights[i].bytes == steps.weights[i].bytes) << steps.weights[i].name;
  ASSERT_EQ(within.losses.size(), 4U);
  for (size_t step = 0; step < 4; ++step) {
    double loss = 0, squares = 0;
    const size_t rows = step < 3 ? 23 : 1;
    for (size_t i = 23 * step; i < 23 * step + rows; ++i) {
      loss += steps.losses[i] / static_cast<double>(rows);
      squares += steps.gradient_norms[i] * steps.gradient_norms[i];
    }
    EXPECT_NEAR(within.losses[step], loss, 1e-6 * loss) << step;
    EXPECT_NEAR(within.gradient_norms[step], std::sqrt(squares), 1e-9 * std::sqrt(squares)) << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SmallSteps,
                         testing::Combine(testing::Values("12-24-18-10-5", "braided", "filtering"),
                                          testing::Values("momentum", "adagrad", "adam")));

// Steps that go on from one to the next are one long step: bit for bit, with what a step says as
// part of what that one says. Dropout knows its step, so that it is another there.
class LongSteps : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(LongSteps, AreStepsThatGoOn) {
  const auto& [source, name] = GetParam();
  constexpr int kSteps = 5;
  Case c{.source = source, .workers = 3, .schedule = name, .batch = 12, .micro_batches = 6};
  c.steps = kSteps;
  c.slots = 3;
  const Answer steps = train(c);
  c.batch *= kSteps;
  c.micro_batches *= kSteps;
  c.steps = 1;
  const Answer one = train(c);
  tests::expect_counted_as_predicted(steps);
  tests::expect_memory_as_predicted(steps);
  ASSERT_EQ(steps.weights.size(), one.weights.size());
  for (size_t i = 0; i < one.weights.size(); ++i)
    EXPECT_TRUE(steps.weights[i].bytes == one.weights[i].bytes) << one.weights[i].name;
  double loss = 0, squares = 0;
  for (int step = 0; step < kSteps; ++step) {
    loss += steps.losses[static_cast<size_t>(step)] / kSteps;
    squares += std::pow(steps.gradient_norms[static_cast<size_t>(step)], 2);
  }
  EXPECT_NEAR(loss, one.losses[0], 1e-6 * loss);
  EXPECT_NEAR(std::sqrt(squares), one.gradient_norms[0], 1e-9 * std::sqrt(squares));
}

INSTANTIATE_TEST_SUITE_P(Schedules, LongSteps,
                         testing::Combine(testing::Values(kDeep, "braided", "filtering"),
                                          testing::Values("pipedream", "pipedream-2bw", "ampnet")));

// Masks are those of the step that a micro-batch is of, however early it is begun: where nothing is
// learnt, what is late does not show.
TEST(AsynchronousDropout, IsOfAMicroBatchsOwnStep) {
  Case c{.source = "dropping", .schedule = "pipedream", .micro_batches = 6, .steps = 6, .slots = 3};
  c.optimizer = {.learning_rate = 1e-30};
  const Answer alone = train(c);
  c.workers = 3;
  const Answer ahead = train(c);
  EXPECT_EQ(alone.losses, ahead.losses);
  for (size_t step = 0; step < alone.gradient_norms.size(); ++step)
    EXPECT_NEAR(alone.gradient_norms[step], ahead.gradient_norms[step], 1e-12) << step;
}

TEST(AsynchronousVersions, MayBeOlderThanAStep) {
  expect_bits_of_one_worker(
      {.source = kDeep, .micro_batches = 1, .steps = 12, .slots = 3},
      parse_schedule("kerf-schedule 1\nname old\nworkers 2\nmicro-batches 1\nstage 0 on 0\n"
                     "stage 1 on 1\nprologue 0:\nsteady 0: 0F0@-7 0B0 0U0\nprologue 1:\n"
                     "steady 1: 1F0 1B0 1U0\n",
                     "old"));
}

TEST(AsynchronousRecomputation, ReadsTheWeightsOfItsForward) {
  Case c{.source = "braided", .micro_batches = 6, .steps = 4, .slots = 3};
  const Schedule kept = step("pipedream", 3, 6);
  expect_bits_of_one_worker(c, recomputed(kept));
  c.workers = 3;
  c.text = write_schedule(kept);
  const Answer as_kept = train(c);
  c.text = write_schedule(recomputed(kept));
  tests::expect_same_bits(train(c), as_kept);
}

// I, W and U of a micro-batch in turns of their own, an update for two micro-batches on one stage
// and for one on the other, and gradients of weights that their forward did not read.
constexpr const char* kMixed =
    "kerf-schedule 1\nname mixed\nworkers 2\nmicro-batches 4\nstage 0 on 0\nstage 1 on 1\n"
    "row 0: 0F0 0F1 0I0@0 0W0 0U0 0F2@-1 0I1 0F3 0I2@-1 0W1 0U1 0W2 0U2 0I3 0W3 0U3\n"
    "row 1: 1F0 1B0 1F1 1I1 1W1 1U1 1F2@-1 1B2@0 1F3 1B3 1U3\n";

TEST(AsynchronousText, MayMixWhatItLikes) {
  const Schedule mixed = parse_schedule(kMixed, "mixed");
  expect_bits_of_one_worker({.source = kDeep, .micro_batches = 4, .steps = 4, .slots = 4}, mixed);
}

// Rows of a step from `first` on: as many to each as was given, until there are none; or evenly.
std::vector<std::vector<int64_t>> micro_batches_of(int64_t first, int64_t rows, const Case& c) {
  const RowOrder order(70, 1, 0);
  std::vector<std::vector<int64_t>> all(static_cast<size_t>(c.micro_batches));
  int64_t next = first;
  for (int64_t mb = 0; mb < c.micro_batches; ++mb) {
    const auto at = static_cast<size_t>(mb);
    int64_t size = rows / c.micro_batches + (mb < rows % c.micro_batches ? 1 : 0);
    if (!c.given_sizes.empty()) size = std::min(c.given_sizes[at], first + rows - next);
    while (size-- > 0) all[at].push_back(order[next++]);
  }
  return all;
}

// Its update at the step's end is that of all micro-batches.
std::vector<Action> with_last_named(std::vector<Action> row, int micro_batches) {
  for (Action& action : row)
    if (action.kind == ActionKind::kUpdate && action.micro_batch < 0)
      action.micro_batch = micro_batches - 1;
  return row;
}

// A step by itself.
Schedule as_it_drains(const Schedule& schedule) {
  return schedule.endless() ? unrolled(schedule, 1) : schedule;
}

double distance(const std::vector<double>& a, const NamedTensor& b) {
  const auto* data = reinterpret_cast<const float*>(b.bytes.data());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(a[i] - static_cast<double>(data[i])));
  return most;
}

// An epoch of the case, whose last step has 4 rows, and of a loop that knows no plan but for which
// layer is in which stage.
void expect_weights_of_a_plain_loop(Case c) {
  c.source = kDeep;
  c.steps = 4;
  c.slots = 4;
  c.optimizer = {.learning_rate = 0.3};
  const Answer trained = train(c);
  Case none = c;
  none.steps = 0;
  const Model model = tests::make_model(c.source);
  const Schedule schedule = c.text.empty() ? make_schedule(c.schedule, model, trained.plan)
                                           : parse_schedule(c.text, "test");
  Perceptron plain(model, trained.plan, train(none).weights, 0.3);
  for (int stage = 0; stage < schedule.stages(); ++stage)
    ASSERT_TRUE(std::ranges::any_of(plain.layers(),
                                    [&](const auto& layer) { return layer.stage == stage; }));
  Perceptron synchronous = plain;
  const Schedule alone = on_one_worker(schedule);
  const bool goes_on = schedule.endless();
  std::vector<std::vector<int64_t>> all;
  for (int64_t first = 0; first < 70; first += 22) {
    const auto rows = micro_batches_of(first, std::min<int64_t>(22, 70 - first), c);
    all.insert(all.end(), rows.begin(), rows.end());
    const std::vector<Action> row =
        with_last_named(as_it_drains(alone).rows[0], schedule.micro_batches);
    if (!goes_on) plain.run(row, rows);
    std::vector<Action> at_the_end = row;
    std::erase_if(at_the_end, [&](const Action& action) {
      return action.kind == ActionKind::kUpdate && action.micro_batch + 1 < schedule.micro_batches;
    });
    synchronous.run(at_the_end, rows);
  }
  if (goes_on) plain.run(unrolled(alone, 4).rows[0], all);
  double most = 0, apart = 0;
  std::map<std::string, const NamedTensor*> by_name;
  for (const NamedTensor& each : trained.weights) by_name[each.name] = &each;
  for (size_t l = 0; l < plain.layers().size(); ++l) {
    const std::string name = kerf::format("fc{}", l + 1);
    const NamedTensor& weight = *by_name.at(name + ".weight");
    const NamedTensor& bias = *by_name.at(name + ".bias");
    most = std::max(
        {most, distance(plain.layers()[l].weight, weight), distance(plain.layers()[l].bias, bias)});
    apart = std::max(apart, distance(synchronous.layers()[l].weight, weight));
  }
  EXPECT_LT(most, 2e-6);
  if (schedule.updates_within()) {
    EXPECT_GT(apart, 1e-3);
  }
}

class PlainLoop : public testing::TestWithParam<std::string> {};

TEST_P(PlainLoop, HasTheSameWeights) {
  Case c{.workers = 3, .schedule = GetParam(), .batch = 22, .micro_batches = 6};
  expect_weights_of_a_plain_loop(c);
}

TEST_P(PlainLoop, HasTheSameWeightsWhereMicroBatchesVary) {
  const Case c{.workers = 3, .schedule = GetParam()};
  expect_weights_of_a_plain_loop(c.with_sizes({3, 1, 9, 2, 1, 6}));
}

INSTANTIATE_TEST_SUITE_P(Schedules, PlainLoop,
                         testing::Values("pipedream", "pipedream-2bw", "ampnet", "1f1b"));

// Its first stage is ahead by more micro-batches than a step has.
TEST(PlainLoops, HasTheWeightsOfStepsThatDrain) {
  ASSERT_TRUE(why_it_drains(step("pipedream", 4, 2)));
  expect_weights_of_a_plain_loop(
      {.workers = 4, .schedule = "pipedream", .batch = 22, .micro_batches = 2});
}

TEST(PlainLoops, HasTheWeightsOfAnyText) {
  expect_weights_of_a_plain_loop({.batch = 22, .micro_batches = 4, .text = kMixed});
}

// Stages of two workers each, which divide their operators by feature: nobody shares a weight.
TEST(PlainLoops, HasTheWeightsOfGroups) {
  expect_weights_of_a_plain_loop({.cut = Cut::kHybrid,
                                  .workers = 4,
                                  .schedule = "pipedream",
                                  .batch = 22,
                                  .micro_batches = 6});
}

// Stage s of p keeps p - s versions; two are enough for 2BW, and AMPNet has one.
TEST(AsynchronousMemory, IsOfAsManyVersionsAsAreRead) {
  const auto persistent = [](const std::string& name) {
    Case c{.source = kDeep, .micro_batches = 6, .steps = 1, .slots = 3};
    c.workers = 3;
    c.text = write_schedule(step(name, 3, 6));
    const Model model = tests::make_model(c.source);
    const Plan plan = tests::plan_of(model, c);
    const Schedule schedule = parse_schedule(c.text, "test");
    return verify(model, plan, partitioner::lower(model, plan, lowering_for(schedule)), schedule,
                  {})
        .persistent_bytes;
  };
  const auto one = persistent("ampnet");
  const auto two = persistent("pipedream-2bw");
  const auto many = persistent("pipedream");
  EXPECT_EQ(many[2], one[2]);
  for (size_t worker = 0; worker < 3; ++worker) {
    const int64_t weights = two[worker] - one[worker];
    EXPECT_GT(weights, 0) << worker;
    EXPECT_EQ(many[worker] - one[worker], (2 - static_cast<int64_t>(worker)) * weights) << worker;
  }
}

void expect_refused(const Case& c, const std::string& what) {
  try {
    train(c);
    ADD_FAILURE() << "was not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.message(), testing::HasSubstr(what));
  }
}

TEST(AsynchronousRefusals, NameWhatWouldWaitForAnother) {
  expect_refused({.cut = Cut::kBatch, .workers = 2, .schedule = "pipedream"}, "is shared by parts");
  Case clipped{.workers = 2, .schedule = "pipedream"};
  clipped.optimizer.most_norm = 1;
  expect_refused(clipped, "--clip-norm");
}

// A rate that explodes in the second step: its first update is made, and none of what comes of it.
TEST(AsynchronousNumbers, ThatAreNotFiniteChangeNothing) {
  Case c{.source = kDeep, .schedule = "pipedream", .micro_batches = 6, .steps = 2};
  c.optimizer = {.learning_rate = 0.01};
  c.rates = {.kind = RateSchedule::Kind::kStep, .every = 1, .factor = 1e25};
  const Answer answer = train(c);
  EXPECT_FALSE(std::isfinite(answer.losses[1]));
  float most = 0;
  for (const NamedTensor& each : answer.weights) {
    const auto* data = reinterpret_cast<const float*>(each.bytes.data());
    for (int64_t i = 0; i < each.shape.elements(); ++i) {
      ASSERT_TRUE(std::isfinite(data[i])) << each.name;
      most = std::max(most, std::abs(data[i]));
    }
  }
  EXPECT_GT(most, 1e15F);
}

// One row of 70 is not: of the step that has it what comes behind is left out, and the next goes
// on, though the pipeline was full all along.
TEST(AsynchronousNumbers, ThatAreNotFiniteSpoilTheirStepAlone) {
  for (const std::string name : {"pipedream", "pipedream-2bw", "ampnet"}) {
    Case c{.source = kDeep, .workers = 3, .schedule = name, .batch = 12, .micro_batches = 6};
    c.steps = 6;
    c.dataset = "rows, one odd";
    const Answer together = train(c);
    c.text = write_schedule(on_one_worker(step(name, 3, 6)));
    c.workers = 1;
    const Answer alone = train(c);
    EXPECT_EQ(together.skipped, alone.skipped) << name;
    ASSERT_EQ(std::ranges::count(together.skipped, "the loss"), 1) << name;
    ASSERT_EQ(std::ranges::count(together.skipped, ""), 5) << name;
    ASSERT_NE(together.skipped.front(), "the loss");
    ASSERT_NE(together.skipped.back(), "the loss");
    ASSERT_EQ(together.weights.size(), alone.weights.size());
    for (size_t i = 0; i < alone.weights.size(); ++i)
      EXPECT_TRUE(together.weights[i].bytes == alone.weights[i].bytes) << alone.weights[i].name;
    for (size_t step = 0; step < 6; ++step)
      EXPECT_EQ(std::isfinite(together.losses[step]), together.skipped[step].empty()) << step;
  }
}

TEST(AsynchronousNumbers, ThatAreNotFiniteEndTheRun) {
  Case c{.source = kDeep, .workers = 3, .schedule = "pipedream", .micro_batches = 4, .steps = 20};
  c.optimizer.learning_rate = 1e20;
  expect_refused(c, "updates behind it were left out");
}

}  // namespace
}  // namespace kerf::schedmp
