// What a run's spans say of its operators, against what their costs say.
#include "apps/report/operator_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/report/worker_speeds.h"
#include "tests/partitioner/sample_models.h"

namespace kerf::apps {
namespace {

using runtime::Span;
using runtime::WorkerTrace;

constexpr int64_t kSecond = 1'000'000'000;

// x -> fc1 -> fc2 -> loss; fc1 needs no gradient of x.
partitioner::Model net() {
  partitioner::Builder b("net");
  b.loss(b.gemm(b.gemm(b.input("x", {ops::kBatch, 8}), 16, "fc1"), 4, "fc2"));
  return b.build();
}

Span span(const std::string& name, int64_t step, int64_t seconds) {
  Span made;
  made.name = name;
  made.kind = Span::Kind::kCompute;
  made.lane = 1;
  made.begin_ns = 5 * kSecond;
  made.end_ns = (5 + seconds) * kSecond;
  made.step = step;
  return made;
}

const OperatorTimes* find(const std::vector<OperatorTimes>& times, const std::string& name) {
  for (const OperatorTimes& each : times)
    if (each.name == name) return &each;
  return nullptr;
}

class TimesOfOperators : public testing::Test {
 protected:
  std::vector<OperatorTimes> times(const std::vector<WorkerTrace>& traces) const {
    return operator_times(model_, plan_, traces);
  }

  partitioner::Model model_ = net();
  partitioner::Plan plan_ = partitioner::testing::plan_of(
      model_, partitioner::testing::request_of(partitioner::Cut::kLayer, 2, 12, 2));
};

TEST_F(TimesOfOperators, AStepIsTheSumOfItsSpansOverAllWorkers) {
  const auto found = times({{0, "a", {span("fc1", 0, 2), span("fc1", 0, 3)}},
                            {1, "b", {span("fc2", 0, 1), span("fc2 input gradient", 0, 7)}}});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "fc1");
  EXPECT_DOUBLE_EQ(found[0].measured.forward, 5);
  EXPECT_DOUBLE_EQ(found[1].measured.forward, 1);
  EXPECT_DOUBLE_EQ(found[1].measured.input_gradient, 7);
  EXPECT_DOUBLE_EQ(found[1].measured.weight_gradient, 0);
}

TEST_F(TimesOfOperators, TheFirstStepWarmsUpAndTheMedianCounts) {
  const auto found = times(
      {{0, "a", {span("fc1", 3, 50), span("fc1", 4, 2), span("fc1", 5, 9), span("fc1", 6, 4)}}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_DOUBLE_EQ(found[0].measured.forward, 4);
}

TEST_F(TimesOfOperators, AStepOfWhichSpansWereLostDoesNotCount) {
  const auto found = times({{0,
                             "a",
                             {span("fc1", 0, 1), span("fc1", 0, 1), span("fc1", 1, 3),
                              span("fc1", 1, 3), span("fc1", 2, 3)}}});
  EXPECT_DOUBLE_EQ(find(found, "fc1")->measured.forward, 6);
}

TEST_F(TimesOfOperators, WhatIsNoOperatorIsNotCounted) {
  Span sent = span("fc1", 0, 9);
  sent.kind = Span::Kind::kSend;
  Span of_no_step = span("fc1", -1, 9);
  EXPECT_THAT(
      times({{0, "a", {sent, of_no_step, span("0F1", 0, 1), span("loss backwards", 0, 1)}}}),
      testing::IsEmpty());
}

// fc1 as its input is data: no such gradient is predicted, so that nothing can be its factor.
TEST_F(TimesOfOperators, APlanByAProfileTakesWhatWasMeasured) {
  const auto found = times({{0, "a", {span("fc1", 0, 2), span("fc1 weight gradient", 0, 4)}},
                            {0, "a", {span("fc2", 0, 1), span("fc1 input gradient", 0, 3)}}});
  EXPECT_EQ(find(found, "fc1")->measured.input_gradient, 0);
  const partitioner::Profile profile = profile_of(found);
  const auto seconds = [&](const std::string& name) {
    partitioner::DeviceSpeed speed;
    speed.profile = profile;
    const auto node = model_.find_node(name);
    return partitioner::node_cost(model_, node, whole_division(model_, node, 0).shares[0].box, 6, 6,
                                  speed);
  };
  EXPECT_NEAR(seconds("fc1").forward_seconds, 2.0 / 2, 1e-9) << "of one of two micro-batches";
  EXPECT_NEAR(seconds("fc1").weight_gradient_seconds, 4.0 / 2, 1e-9);
  EXPECT_EQ(seconds("fc1").input_gradient_seconds, 0);
  EXPECT_NEAR(seconds("fc2").forward_seconds, 1.0 / 2, 1e-9);
}

// Worker 0 has fc1 and takes 12 s of a step, 6 of them for fc1; worker 1 takes 5 s, 2 of them for
// fc2, and is half as fast as was planned.
TEST_F(TimesOfOperators, WhatAWorkerDoesBesideOperatorsGoesWithThemAndIsOfASpeedOfOne) {
  partitioner::Capacities capacities;
  capacities.workers = {{.speed = 1}, {.speed = 0.5}};
  Span action = span("1F0", 0, 100);
  action.lane = runtime::TraceRow::kActions;
  const std::vector<WorkerTrace> traces{
      {0, "a", {span("fc1", 0, 2), span("fc1 weight gradient", 0, 4)}},
      {1, "b", {span("fc2", 0, 2), action}}};
  const auto found = operator_times(model_, plan_, traces, std::vector<double>{12, 5}, capacities);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_DOUBLE_EQ(found[0].measured.forward, 4);
  EXPECT_DOUBLE_EQ(found[0].measured.weight_gradient, 8);
  EXPECT_DOUBLE_EQ(found[1].measured.forward, 2.5);
}

// Halves of fc1 and fc2, of which worker 1 takes twice as long for each; what they cost is not
// quite the same.
TEST_F(TimesOfOperators, WorkersThatShareOperatorsShowHowFastTheyAreBesideEachOther) {
  const std::vector<WorkerTrace> traces{{0, "a", {span("fc1", 0, 2), span("fc2", 0, 1)}},
                                        {1, "b", {span("fc1", 0, 4), span("fc2", 0, 2)}}};
  const std::vector<double> seconds{3, 6}, planned{1, 1};
  const partitioner::Plan halves = partitioner::testing::plan_of(
      model_, partitioner::testing::request_of(partitioner::Cut::kFeature, 2, 12, 2));
  const std::vector<double> speeds = speeds_by_shares(model_, halves, traces, seconds, planned);
  EXPECT_NEAR(speeds[0], 2 * speeds[1], 0.01);
  EXPECT_NEAR(speeds[0] * speeds[1], 1, 0.01) << "as fast together";
  EXPECT_EQ(speeds_by_shares(model_, plan_, {traces.data(), 1}, seconds, planned), planned)
      << "by layers they share nothing";
}

TEST_F(TimesOfOperators, WhatWasNotMeasuredTakesAsMuchLongerAsAllTogether) {
  const auto found = times({{0, "a", {span("fc1", 0, 2), span("fc2", 0, 1)}}});
  const partitioner::Profile profile = profile_of(found);
  const double predicted =
      find(found, "fc1")->predicted.forward + find(found, "fc2")->predicted.forward;
  EXPECT_NEAR(profile.of("loss").forward, 3 / predicted, 1e-6 / predicted);
  EXPECT_EQ(profile.of("loss").weight_gradient, 1);
}

}  // namespace
}  // namespace kerf::apps
