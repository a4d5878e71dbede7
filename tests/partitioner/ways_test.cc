// Ways: some operators by sample, others by feature, one whole; what cannot be is named.
#include <gmock/gmock.h>

#include "partitioner/builder.h"
#include "partitioner/steering.h"
#include "tests/partitioner/steered_plans.h"

namespace kerf::partitioner {
namespace {

using ::testing::AllOf;
using testing::free_request;
using ::testing::HasSubstr;
using testing::made;
using testing::message_of;
using testing::small_mlp;

std::string layout_text(const Model& model, const Plan& plan, const std::string& node) {
  const ValueId output = model.node(model.find_node(node)).outputs[0];
  return ops::describe(plan.layouts[static_cast<size_t>(output)]);
}

TEST(Ways, EachOperatorByItsOwn) {
  const Model model = make_zoo_model("lenet5");
  PlanRequest request = free_request(2);
  request.steering.ways = {{"conv*", "batch"}, {"fc*", "feature"}};
  const Plan plan = made(model, request);
  for (const char* node : {"conv1", "relu1", "pool1", "conv2", "pool2"})
    EXPECT_EQ(layout_text(model, plan, node), "split on axis 0 over 0,1") << node;
  for (const char* node : {"fc1", "relu3", "fc2", "relu4", "fc3"})
    EXPECT_EQ(layout_text(model, plan, node), "split on axis 1 over 0,1") << node;
  request.steering.ways.push_back({"fc3", "whole:1"});  // the last that fits holds
  request.steering.ways.push_back({"relu3", "batch"});
  const Plan other = made(model, request);
  EXPECT_EQ(layout_text(model, other, "fc3"), "whole on 1");
  EXPECT_EQ(layout_text(model, other, "relu3"), "split on axis 0 over 0,1");
  EXPECT_EQ(layout_text(model, other, "fc2"), "split on axis 1 over 0,1");
}

TEST(Ways, OthersByTheCutThatWasAsked) {
  const Model model = small_mlp();
  PlanRequest request = free_request(2);
  request.steering.ways = {{"fc2", "feature"}};
  request.steering.others = "batch";
  const Plan plan = made(model, request);
  EXPECT_EQ(layout_text(model, plan, "fc1"), "split on axis 0 over 0,1");
  EXPECT_EQ(layout_text(model, plan, "fc2"), "split on axis 1 over 0,1");
  EXPECT_EQ(layout_text(model, plan, "fc3"), "split on axis 0 over 0,1");
}

TEST(Ways, NormalisationsBySampleAreRewritten) {
  const Model model = make_zoo_model("lenet5-bn");
  PlanRequest request = free_request(2);
  request.steering.ways = {{"conv*", "batch"}, {"fc*", "feature"}};
  const Model rewritten = model_for(model, request);
  EXPECT_EQ(rewritten.rewrites().size(), 2U);
  const Plan plan = made(model, request);
  EXPECT_EQ(layout_text(rewritten, plan, "relu1"), "split on axis 0 over 0,1");
}

TEST(Ways, WhatCannotBeIsNamed) {
  const Model model = make_zoo_model("lenet5");
  PlanRequest request = free_request(2);
  const auto refusal = [&](const std::string& pattern, const std::string& way) {
    request.steering.ways = {{pattern, way}};
    return message_of([&] { made(model, request); });
  };
  EXPECT_THAT(refusal("cnv1", "batch"), AllOf(HasSubstr("--way"), HasSubstr("conv1")));
  EXPECT_THAT(refusal("fc1", "whole:2"), HasSubstr("0 to 1"));
  for (const char* text : {"fc1", "=batch", "fc1=", "fc1=whole:", "fc1=whole:x", "fc1=space"})
    EXPECT_THROW(parse_way(text), Error) << text;
  EXPECT_EQ(parse_way("a=b=batch"), (WayRule{"a=b", "batch"}));
  for (const char* text : {"evn", "block-cyclic:0", "block-cyclic:", "block-cyclic:-1"})
    EXPECT_THROW(parse_pattern(text), Error) << text;
  for (const char* text : {"a", "a,", ",b", ","}) EXPECT_THROW(parse_patterns(text), Error) << text;
}

TEST(Ways, WhatCannotBeDividedSoIsNamed) {
  const auto refusal = [](const Model& model, const WayRule& rule) {
    PlanRequest request = free_request(2);
    request.steering.ways = {rule};
    return message_of([&] { made(model, request); });
  };
  Builder one("one");
  one.loss(one.gemm(one.gemm(one.input("x", {ops::kBatch, 4}), 1, "narrow"), 6, "fc"));
  EXPECT_THAT(refusal(one.build(), {"narrow", "feature"}),
              AllOf(HasSubstr("node narrow"), HasSubstr("no features that could be apart")));
  Builder rows("rows");
  const ValueId x = rows.gemm(rows.input("x", {ops::kBatch, 4}), 6, "fc1");
  const ValueId hard = rows.node("LpNormalization", {x}, {}, "unit");
  rows.loss(rows.gemm(hard, 6, "fc2"));
  EXPECT_THAT(refusal(rows.build(), {"unit", "feature"}),
              AllOf(HasSubstr("node unit"), HasSubstr("no features that could be apart")));
  Builder mixed("mixed");
  const ValueId all = mixed.gemm(mixed.input("x", {ops::kBatch, 4}), 6, "fc");
  const ValueId turned =
      mixed.node("Transpose", {all}, {{"perm", std::vector<int64_t>{1, 0}}}, "turned");
  mixed.loss(mixed.reshape(mixed.reshape(turned, {-1}, "in_a_row"), {-1, 6}, "dealt"));
  EXPECT_THAT(refusal(mixed.build(), {"in_a_row", "batch"}),
              AllOf(HasSubstr("node in_a_row"), HasSubstr("by sample")));
  // Which speaks of those that can be.
  EXPECT_EQ(refusal(make_zoo_model("lenet5"), {"*", "feature"}), "no error");
}

// Each by the rewrite that divides it, or as what it reads.
TEST(Ways, RowsAndLossesByFeatureAreRewritten) {
  Builder b("rows");
  const ValueId x = b.gemm(b.input("x", {ops::kBatch, 6}), 12, "fc1");
  const ValueId y = b.gemm(b.layer_norm(x, "norm"), 12, "fc2");
  b.loss(b.gemm(b.softmax(y, "shares"), 10, "fc3"));
  const Model model = b.build();
  for (const char* node : {"norm", "shares", "loss"}) {
    PlanRequest request = free_request(2);
    request.steering.ways = {{node, "feature"}};
    const Model rewritten = model_for(model, request);
    ASSERT_EQ(rewritten.rewrites().size(), 1U) << node;
    EXPECT_EQ(rewritten.rewrites()[0].node, node);
    made(model, request);
  }
}

TEST(Ways, WorkersThatTheWaysLeaveIdleAreToldSo) {
  const Model model = make_zoo_model("lenet5");
  PlanRequest request = free_request(3);
  request.steering.ways = {{"*", "whole:1"}};
  EXPECT_THAT(message_of([&] { made(model, request); }), HasSubstr("the ways give it none"));
}

}  // namespace
}  // namespace kerf::partitioner
