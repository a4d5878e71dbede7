// Split rules by example: what a wanted box needs, and what its gradients leave to be summed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/operator.h"

namespace kerf::ops {
namespace {

using testing::HasSubstr;
using Ints = std::vector<int64_t>;

ValueSpec f32(Shape shape) { return {DType::kFloat32, shape}; }

SplitRule rule_for(const std::string& op, const Attributes& attributes,
                   const std::vector<ValueSpec>& inputs, int axis, const std::string& set) {
  const Operator& found = find_operator(op);
  const ValueSpec output = found.infer(attributes, inputs)[0];
  Box wanted = Box::whole(output.shape.rank());
  wanted.axes[static_cast<size_t>(axis)] = parse_index_set(set, "test");
  return found.split(attributes, inputs, output, wanted);
}

// "[all, all] partial; [0-3, all]"
std::string told(const SplitRule& rule) {
  if (rule.kind == SplitRule::Kind::kRefuse) return "refused";
  if (rule.kind == SplitRule::Kind::kGather) return format("gather axis {}", rule.axis);
  std::vector<std::string> inputs;
  for (const auto& input : rule.inputs)
    inputs.push_back(to_string(input.box) + (input.gradient_partial ? " partial" : ""));
  return format("{}", fmt::join(inputs, "; "));
}

TEST(SplitRules, GemmNeedsAllOfItsInputForSomeOfItsColumns) {
  const std::vector<ValueSpec> rows{f32({kBatch, 8}), f32({10, 8}), f32({10})};
  const Attributes transposed{{"transB", int64_t{1}}};
  EXPECT_EQ(told(rule_for("Gemm", transposed, rows, 1, "0-3,7")),
            "[all, all] partial; [0-3,7, all]; [0-3,7]");
  EXPECT_EQ(told(rule_for("Gemm", transposed, rows, 1, "0-9")), "[all, all]; [all, all]; [all]");
  EXPECT_EQ(told(rule_for("Gemm", {}, {f32({kBatch, 8}), f32({8, 10})}, 1, "2-5")),
            "[all, all] partial; [all, 2-5]");
}

TEST(SplitRules, GemmBySamplesLeavesPartialWeightGradients) {
  EXPECT_EQ(told(rule_for("Gemm", {}, {f32({6, 8}), f32({8, 10})}, 0, "0-2")),
            "[0-2, all]; [all, all] partial");
}

TEST(SplitRules, ConvDividesFiltersAndWholeGroups) {
  EXPECT_EQ(
      told(rule_for("Conv", {}, {f32({kBatch, 3, 8, 8}), f32({6, 3, 3, 3}), f32({6})}, 1, "1,4")),
      "[all, all, all, all] partial; [1,4, all, all, all]; [1,4]");
  const Attributes grouped{{"group", int64_t{3}}};
  const std::vector<ValueSpec> inputs{f32({kBatch, 6, 8, 8}), f32({9, 2, 3, 3})};
  EXPECT_EQ(told(rule_for("Conv", grouped, inputs, 1, "0-2,6-8")),
            "[all, 0-1,4-5, all, all]; [0-2,6-8, all, all, all]");
  const SplitRule divided = rule_for("Conv", grouped, inputs, 1, "0-3");
  EXPECT_EQ(divided.kind, SplitRule::Kind::kRefuse);
  EXPECT_THAT(divided.reason, HasSubstr("divides a group"));
}

TEST(SplitRules, WindowsRefuseADividedSpaceByName) {
  const Attributes window{{"kernel_shape", Ints{2, 2}}};
  const SplitRule rule = rule_for("MaxPool", window, {f32({kBatch, 3, 8, 8})}, 2, "0-3");
  EXPECT_EQ(rule.kind, SplitRule::Kind::kRefuse);
  EXPECT_THAT(rule.reason, HasSubstr("MaxPool"));
  EXPECT_THAT(rule.reason, HasSubstr("axis 2"));
  EXPECT_EQ(told(rule_for("AveragePool", window, {f32({kBatch, 3, 8, 8})}, 1, "0,2")),
            "[all, 0,2, all, all]");
}

TEST(SplitRules, FlattenAsksForWholeChannels) {
  const std::vector<ValueSpec> image{f32({kBatch, 4, 2, 3})};
  EXPECT_EQ(told(rule_for("Flatten", {}, image, 1, "6-11")), "[all, 1, all, all]");
  const SplitRule rule = rule_for("Flatten", {}, image, 1, "0-7");
  EXPECT_EQ(rule.kind, SplitRule::Kind::kRefuse);
  EXPECT_THAT(rule.reason, HasSubstr("whole channels"));
}

TEST(SplitRules, AddSumsWhatItRepeated) {
  EXPECT_EQ(told(rule_for("Add", {}, {f32({kBatch, 8}), f32({8})}, 1, "2-3")), "[all, 2-3]; [2-3]");
  EXPECT_EQ(told(rule_for("Add", {}, {f32({kBatch, 8}), f32({1})}, 1, "2-3")),
            "[all, 2-3]; [all] partial");
}

TEST(SplitRules, SoftmaxGathersItsAxisAndNoOther) {
  EXPECT_EQ(told(rule_for("Softmax", {}, {f32({kBatch, 4, 6})}, 2, "0-2")), "gather axis 2");
  EXPECT_EQ(told(rule_for("Softmax", {}, {f32({kBatch, 4, 6})}, 1, "0-2")), "[all, 0-2, all]");
}

TEST(SplitRules, TheLossNeedsAllScores) {
  const Operator& loss = find_operator("SoftmaxCrossEntropyLoss");
  const std::vector<ValueSpec> inputs{f32({kBatch, 10}), {DType::kInt64, {kBatch}}};
  EXPECT_EQ(told(loss.split({}, inputs, f32({}), Box::whole(0))), "[all, all]; [all]");
}

TEST(SplitRules, MatMulDividesRowsAndColumns) {
  const std::vector<ValueSpec> shared{f32({kBatch, 5, 3}), f32({3, 4})};
  EXPECT_EQ(told(rule_for("MatMul", {}, shared, 1, "0-1")), "[all, 0-1, all]; [all, all] partial");
  EXPECT_EQ(told(rule_for("MatMul", {}, shared, 2, "0-1")), "[all, all, all] partial; [all, 0-1]");
}

}  // namespace
}  // namespace kerf::ops
