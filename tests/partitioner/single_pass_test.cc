// A step of one micro-batch: what is kept and the gradients of parameters have their places from
// their first use to their last (part.h), and the step comes to what it comes to in any other way.
// That nothing is read after something else was written to its place is the runner's to see.
#include <gtest/gtest.h>

#include "partitioner/builder.h"
#include "partitioner/zoo.h"
#include "tests/partitioner/step_checks.h"

namespace kerf::partitioner {
namespace {

Plan at_once(const Model& model, Cut cut, int workers) {
  return plan_of(model, cut, workers, {}, 1);
}

// Plans of the same parts, whose memory is that of several micro-batches.
Plan in_turn(Plan plan) {
  plan.micro_batches = 2;
  return plan;
}

struct Sample {
  std::string name;
  Model model;
};
std::vector<Sample> samples() {
  return {{"mlp", make_zoo_model("mlp", {{8, 12, 10, 10}})},
          {"lenet5_bn", make_zoo_model("lenet5-bn")},
          {"tied", tied()},
          {"squeezenet", make_zoo_model("squeezenet", {.width = 0.125, .classes = 5, .image = 32})},
          {"lstm", make_zoo_model("lstm-lm", {.sizes = {4, 7, 5, 6}})}};
}

class SinglePass : public ::testing::TestWithParam<size_t> {
 protected:
  Model model_ = samples()[GetParam()].model;
};

INSTANTIATE_TEST_SUITE_P(Models, SinglePass, ::testing::Range<size_t>(0, 5),
                         [](const auto& of) { return samples()[of.param].name; });

TEST_P(SinglePass, GivesTheBitsOfMicroBatchesOfWhichOneHasAllRows) {
  const Plan plan = at_once(model_, Cut::kLayer, 1);
  EXPECT_TRUE(lower(model_, plan)[0].single_pass);
  const StepResult result = run(model_, plan, {10});
  const StepResult expected = run(model_, in_turn(plan), {10, 0});
  EXPECT_EQ(result.losses[0], expected.losses[0]);
  EXPECT_EQ(result.gradients, expected.gradients);
  EXPECT_EQ(result.parameters, expected.parameters);
}

TEST_P(SinglePass, OverSeveralWorkersIsThatOfOne) {
  const StepResult one = run(model_, at_once(model_, Cut::kLayer, 1), {10});
  for (const Cut cut : {Cut::kLayer, Cut::kFeature, Cut::kBatch, Cut::kHybrid}) {
    // Whose statistics are those of all rows is divided by rewriting it (rewrite_test.cc).
    if (cut != Cut::kLayer && model_.name() == "lenet5-bn") continue;
    const Plan plan = at_once(model_, cut, cut == Cut::kLayer ? 2 : 4);
    const StepResult result = run(model_, plan, {10});
    if (cut == Cut::kLayer)
      expect_same_bits(result, one);
    else
      expect_close(result, one, 1e-4F);
    EXPECT_EQ(result.traffic, predict_traffic(model_, plan, plan.batch));
  }
}

int64_t all_regions(const Part& part) {
  int64_t bytes = 0;
  for (const int64_t each : part.region_bytes) bytes += each;
  return bytes;
}

int64_t gradient_bytes(const Part& part) {
  int64_t bytes = 0;
  for (const Local& local : part.locals)
    if (local.kind == LocalKind::kParameterGradient || local.kind == LocalKind::kHomeGradient)
      bytes += static_cast<int64_t>(local.bytes(0));
  return bytes;
}

TEST_P(SinglePass, TakesNoMoreThanIsThereAtOnce) {
  const Plan plan = at_once(model_, Cut::kLayer, 1);
  const Part pass = lower(model_, plan)[0];
  const Part turn = lower(model_, in_turn(plan))[0];
  EXPECT_EQ(pass.kept_bytes, turn.kept_bytes);
  EXPECT_LT(pass.backward.transient_bytes, all_regions(turn) + gradient_bytes(turn));
  EXPECT_GE(pass.backward.transient_bytes, std::max(pass.kept_bytes, gradient_bytes(pass)));
  EXPECT_GE(persistent_bytes(turn, 1, 1, true) - persistent_bytes(pass, 1, 1, true),
            gradient_bytes(turn));
  for (const RegionKind region : {RegionKind::kKept, RegionKind::kKeptForWeights})
    EXPECT_EQ(pass.bytes_of(region), 0);
}

// A gradient that is added to what is there is made apart first, by kernels that cannot add.
TEST(SinglePassOf, AConvolutionHasNoRoomForASumThatThereIsNoneOf) {
  Builder b("conv");
  const ValueId x = b.input("x", {ops::kBatch, 64, 6, 6});
  b.loss(b.gemm(b.flatten(b.conv(x, 64, 3, 1, 1, "conv")), 5, "head"));
  const Model model = b.build();
  const Plan plan = at_once(model, Cut::kLayer, 1);
  const auto room = [&](const Plan& of, bool gradients) {
    return lower(model, of, {.gradients = gradients})[0].calls[0].workspace;
  };
  const int64_t weights = 64 * 64 * 3 * 3 * 4;
  EXPECT_EQ(room(in_turn(plan), true), room(plan, true) + weights + 64 * 4);
  EXPECT_LE(room(plan, false), room(plan, true));
}

// The other stage's lists come in between.
TEST(SinglePassOf, AWorkerWithTwoStagesIsNone) {
  const Model model = make_zoo_model("mlp", {{8, 12, 10, 10}});
  Plan plan = at_once(model, Cut::kLayer, 2);
  for (const Part& part : lower(model, plan)) EXPECT_TRUE(part.single_pass);
  plan.binding = {0, 0};
  for (const Part& part : lower(model, plan)) EXPECT_FALSE(part.single_pass);
  expect_same_bits(run(model, plan, {10}), run(model, at_once(model, Cut::kLayer, 1), {10}));
}

}  // namespace
}  // namespace kerf::partitioner
