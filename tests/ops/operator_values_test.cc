// What operators compute, by example: the meaning that no derivative can check.
#include "tests/ops/operator_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/errors.h"

namespace kerf::ops {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using tests::error_of;
using Ints = std::vector<int64_t>;

HostTensor labels(std::vector<int64_t> values) {
  return {DType::kInt64, {static_cast<int64_t>(values.size())}, {}, std::move(values)};
}

TEST_F(OperatorValues, FunctionsKeepNan) {
  for (const char* op : {"Relu", "Sigmoid", "Tanh"}) {
    const auto y = forward(op, {}, {floats({1, 3}, {-1, 2, kNan})}).floats;
    EXPECT_THAT(y, ElementsAre(testing::Le(0.5F), testing::Gt(0.5F), testing::IsNan())) << op;
  }
}

TEST_F(OperatorValues, FunctionsGiveTheSameBitsWhateverIsBeside) {
  std::vector<float> x(53);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.37F * static_cast<float>(i) - 9;
  for (const char* op : {"Relu", "Sigmoid", "Tanh"}) {
    const auto all = forward(op, {}, {floats({1, 53}, x)}).floats;
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_EQ(forward(op, {}, {floats({1, 1}, {x[i]})}).floats[0], all[i]) << op << " " << x[i];
  }
}

TEST_F(OperatorValues, PoolsOfWideRows) {
  const Attributes pairs{{"kernel_shape", Ints{1, 2}}, {"strides", Ints{1, 2}}};
  std::vector<float> x(1200), most, means;
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  for (size_t i = 0; i < x.size(); i += 2) most.push_back(x[i + 1]);
  for (size_t i = 0; i < x.size(); i += 2) means.push_back(x[i] + 0.5F);
  const HostTensor rows = floats({1, 1, 2, 600}, x);
  EXPECT_EQ(forward("MaxPool", pairs, {rows}).floats, most);
  EXPECT_EQ(forward("AveragePool", pairs, {rows}).floats, means);
  const HostTensor dy = floats({1, 1, 2, 300}, most);
  std::vector<float> taken, shared;
  for (const float number : most) {
    taken.insert(taken.end(), {0, number});
    shared.insert(shared.end(), 2, number / 2);
  }
  EXPECT_EQ(gradient("MaxPool", pairs, {rows}, dy).floats, taken);
  EXPECT_EQ(gradient("AveragePool", pairs, {rows}, dy).floats, shared);
}

TEST_F(OperatorValues, MaxPoolTakesTheLargestAndKeepsNan) {
  const Attributes two{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  const auto y = forward("MaxPool", two,
                         {floats({1, 1, 2, 6}, {1, 2, 5, 3, 0, -1,  //
                                                4, 3, 5, 9, 2, kNan})});
  EXPECT_THAT(y.floats, ElementsAre(4, 9, testing::IsNan()));
}

TEST_F(OperatorValues, MaxPoolGivesTheGradientToTheFirstOfEquals) {
  for (const Ints& kernel : {Ints{2, 2}, Ints{1, 4}}) {
    const HostTensor x = floats({1, 1, kernel[0], kernel[1]}, {3, 7, 7, 7});
    const auto dx = gradient("MaxPool", {{"kernel_shape", kernel}, {"strides", kernel}}, {x},
                             floats({1, 1, 1, 1}, {5}));
    EXPECT_THAT(dx.floats, ElementsAre(0, 5, 0, 0));
  }
}

TEST_F(OperatorValues, ReluPassesTheGradientWhereItsOutputIsPositive) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto dx = gradient("Relu", {}, {floats({1, 4}, {-1, 2, 0, kNan})},
                           floats({1, 4}, {kInfinity, -3, 5, 7}));
  EXPECT_THAT(dx.floats, ElementsAre(0, -3, 0, 0));
}

TEST_F(OperatorValues, AveragePoolCountsPaddingOnlyWhenTold) {
  Attributes window{{"kernel_shape", Ints{2, 2}}, {"pads", Ints{1, 1, 0, 0}}};
  const HostTensor x = floats({1, 1, 1, 1}, {8});
  EXPECT_THAT(forward("AveragePool", window, {x}).floats, ElementsAre(8));
  window["count_include_pad"] = int64_t{1};
  EXPECT_THAT(forward("AveragePool", window, {x}).floats, ElementsAre(2));
}

TEST_F(OperatorValues, GemmScalesProductAndBias) {
  const auto y = forward("Gemm", {{"alpha", 2.0}, {"beta", 10.0}},
                         {floats({1, 2}, {1, 3}), floats({2, 1}, {5, 7}), floats({1}, {4})});
  EXPECT_THAT(y.floats, ElementsAre(2 * (5 + 21) + 40));
}

TEST_F(OperatorValues, TheLossIsASumOverTheStepsNormaliser) {
  const HostTensor scores = floats({2, 2}, {0, 0, 1000, 0});
  const auto loss =
      forward("SoftmaxCrossEntropyLoss", {}, {scores, labels({1, 1})}, {.normaliser = 8});
  EXPECT_NEAR(loss.floats[0], (std::log(2.0) + 1000) / 8, 1e-4);
}

// A denominator kept as a float would be wrong by 5e-4 there.
TEST_F(OperatorValues, TheLossGradientIsExactAtLargeScores) {
  for (const float large : {0.0F, 1e4F, -1e4F, 3e4F}) {
    const std::vector<float> scores{large, large + 0.5F, large - 0.25F};
    const auto dx = gradient("SoftmaxCrossEntropyLoss", {}, {floats({1, 3}, scores), labels({2})},
                             floats({}, {1}));
    double sum = 0;
    for (const float s : scores) sum += std::exp(double{s} - double{large});
    for (size_t c = 0; c < 3; ++c)
      EXPECT_NEAR(double{dx.floats[c]},
                  std::exp(double{scores[c]} - double{large}) / sum - (c == 2 ? 1 : 0), 2e-7)
          << "class " << c << " at " << large;
  }
}

TEST_F(OperatorValues, ALabelOutOfRangeNamesRowAndValue) {
  for (const int64_t label : {int64_t{-1}, int64_t{2}}) {
    const auto error = error_of([&] {
      forward("SoftmaxCrossEntropyLoss", {}, {zeros({2, 2}), labels({0, label})});
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_THAT(error->message(), HasSubstr("sample 1"));
    EXPECT_THAT(error->message(), HasSubstr(format(" {},", label)));
  }
}

// A part that has some of the samples names them as the micro-batch does.
TEST_F(OperatorValues, ALabelOutOfRangeIsNamedByItsPlaceInTheMicroBatch) {
  NodeFacts facts;
  facts.inputs.push_back({{DType::kFloat32, {kBatch, 2, 3}}, Role::kActivation, true});
  facts.inputs.push_back({{DType::kInt64, {kBatch, 3}}, Role::kLabel});
  const Box part{{IndexSet::of({1, 5}), IndexSet::all(), IndexSet::of({0, 2})}};
  OperatorRunner runner(bind_operator(find_operator("SoftmaxCrossEntropyLoss"), facts), *device_,
                        part, 8);
  HostTensor some = labels({0, 0, 0, 4});
  some.shape = {2, 2};
  const auto error = error_of([&] {
    (void)runner.forward({zeros({2, 2, 2}), some}, {.samples = 6});
  });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), HasSubstr("sample 5 at position [2]"));
}

TEST_F(OperatorValues, DropoutIsTheIdentityOutsideTraining) {
  const HostTensor x = floats({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(forward("Dropout", {{"ratio", 0.9}}, {x}, {.training = false}).floats, x.floats);
}

TEST_F(OperatorValues, DropoutDropsItsShareAndScalesTheRest) {
  HostTensor x = zeros({100, 100});
  x.floats.assign(10'000, 3);
  const auto y = forward("Dropout", {{"ratio", 0.25}}, {x});
  const auto kept = std::count(y.floats.begin(), y.floats.end(), 4.0F);
  EXPECT_NEAR(static_cast<double>(kept), 7'500, 200);
  EXPECT_EQ(std::count(y.floats.begin(), y.floats.end(), 0.0F) + kept, 10'000);
}

TEST_F(OperatorValues, DropoutDropsOtherElementsInEveryMicroBatch) {
  HostTensor x = zeros({20, 20});
  x.floats.assign(400, 1);
  const Attributes half{{"ratio", 0.5}};
  const auto first = forward("Dropout", half, {x}, {.micro_batch = 0}).floats;
  EXPECT_EQ(forward("Dropout", half, {x}, {.micro_batch = 0}).floats, first);
  EXPECT_NE(forward("Dropout", half, {x}, {.micro_batch = 1}).floats, first);
}

TEST_F(OperatorValues, DropoutTakesItsRatioFromAnInputToo) {
  const HostTensor x = floats({1, 4}, {1, 2, 3, 4});
  EXPECT_EQ(forward("Dropout", {}, {x, floats({}, {0})}).floats, x.floats);
  EXPECT_EQ(error_of([&] {
              forward("Dropout", {}, {x, floats({}, {1})});
            })->code(),
            ErrorCode::kUsage);
}

TEST_F(OperatorValues, SoftmaxOfLargeNumbersIsFinite) {
  const auto y = forward("Softmax", {}, {floats({1, 3}, {1e4F, 1e4F, -1e4F})}).floats;
  EXPECT_THAT(y, ElementsAre(0.5F, 0.5F, 0));
}

TEST_F(OperatorValues, OfEqualsTopKTakesTheFirst) {
  const HostTensor x = floats({1, 6}, {2, 1, 2, kNan, 2, 1});
  for (const int64_t largest : {1, 0}) {
    const Attributes attributes{{"k", int64_t{3}}, {"largest", largest}};
    OperatorRunner runner(bound("TopK", attributes, {x}), *device_, 0);
    const auto indices = runner.forward({x}, {})[1].integers;
    if (largest == 1)
      EXPECT_THAT(indices, ElementsAre(3, 0, 2)) << "NaN is greater than all numbers";
    else
      EXPECT_THAT(indices, ElementsAre(1, 5, 0));
  }
}

TEST_F(OperatorValues, ArgMaxFindsNanAndTheFirstOrLastOfEquals) {
  const auto place = [&](std::vector<float> values, int64_t last) {
    const auto extent = static_cast<int64_t>(values.size());
    return forward("ArgMax", {{"select_last_index", last}}, {floats({extent}, std::move(values))})
        .integers;
  };
  EXPECT_THAT(place({1, 3, 3, 2}, 0), ElementsAre(1));
  EXPECT_THAT(place({1, 3, 3, 2}, 1), ElementsAre(2));
  EXPECT_THAT(place({1, kNan, 3, kNan}, 0), ElementsAre(1));
  EXPECT_THAT(place({1, kNan, 3, kNan}, 1), ElementsAre(3));
}

TEST_F(OperatorValues, ReductionsKeepNanAndStayFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto reduce = [&](const char* op, std::vector<float> values) {
    const auto extent = static_cast<int64_t>(values.size());
    return forward(op, {{"keepdims", int64_t{0}}}, {floats({extent}, std::move(values))}).floats[0];
  };
  for (const char* op : {"ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceLogSumExp"})
    EXPECT_TRUE(std::isnan(reduce(op, {1, kNan, 2}))) << op;
  EXPECT_EQ(reduce("ReduceMax", {-infinity, -infinity}), -infinity);
  EXPECT_FLOAT_EQ(reduce("ReduceLogSumExp", {1000, 1000}), 1000 + std::log(2.0F));
  EXPECT_EQ(reduce("ReduceLogSumExp", {-infinity, -infinity}), -infinity);
  EXPECT_EQ(reduce("ReduceLogSumExp", {-infinity, infinity}), infinity);
}

TEST_F(OperatorValues, TheLargestShareTheGradient) {
  const auto dx = gradient("ReduceMax", {{"keepdims", int64_t{0}}}, {floats({4}, {1, 3, 3, 2})},
                           floats({}, {6}));
  EXPECT_THAT(dx.floats, ElementsAre(0, 3, 3, 0));
}

TEST_F(OperatorValues, TheLastUpdateOfAPlaceStaysAndHasTheGradient) {
  const std::vector<HostTensor> inputs{floats({4}, {1, 2, 3, 4}), labels({1, 3, 1}),
                                       floats({3}, {10, 20, 30})};
  EXPECT_THAT(forward("ScatterElements", {}, inputs).floats, ElementsAre(1, 30, 3, 20));
  const HostTensor dy = floats({4}, {1, 2, 3, 4});
  OperatorRunner runner(bound("ScatterElements", {}, inputs), *device_, 0);
  const auto gradients =
      runner.gradients(inputs, {}, {dy}, {{0, false, zeros({4})}, {2, false, zeros({3})}});
  EXPECT_THAT(gradients[0].floats, ElementsAre(1, 0, 3, 0));
  EXPECT_THAT(gradients[1].floats, ElementsAre(0, 4, 2));
}

TEST_F(OperatorValues, TheLastNumberUnpooledToAPlaceStaysAndHasTheGradient) {
  const Attributes pairs{{"kernel_shape", std::vector<int64_t>{2}},
                         {"strides", std::vector<int64_t>{2}}};
  const std::vector<HostTensor> inputs{floats({1, 1, 3}, {7, 8, 9}),
                                       integers(DType::kInt64, {1, 1, 3}, {4, 1, 4})};
  EXPECT_THAT(forward("MaxUnpool", pairs, inputs).floats, ElementsAre(0, 8, 0, 0, 9, 0));
  EXPECT_THAT(
      gradient("MaxUnpool", pairs, inputs, floats({1, 1, 6}, {10, 11, 12, 13, 14, 15})).floats,
      ElementsAre(0, 11, 14));
}

TEST_F(OperatorValues, WhatHasNoGradientOfParametersIsNamed) {
  NodeFacts facts;
  facts.inputs.push_back({{DType::kFloat32, {2}}, Role::kParameter, true});
  OperatorRunner runner(bind_operator(find_operator("Tanh"), facts), *device_, 0);
  const auto error = tests::error_of([&] {
    (void)runner.gradients({zeros({2})}, {}, {zeros({2})}, {{0, false, zeros({2})}});
  });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), HasSubstr("through Tanh"));
}

TEST_F(OperatorValues, OneHotHasNoPlaceForAnIndexOutOfRange) {
  TensorLiteral pair{DType::kInt8, {2}, {5, 7}};
  const auto y =
      forward("OneHot", {{"depth", int64_t{3}}, {"values", pair}}, {labels({1, -1, 3, -4})});
  EXPECT_THAT(y.integers, ElementsAre(5, 7, 5, 5, 5, 7, 5, 5, 5, 5, 5, 5));
}

TEST_F(OperatorValues, AnIndexOutOfRangeIsNamed) {
  const HostTensor x = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  const HostTensor pairs{DType::kInt64, {2, 1}, {}, {2, -4}};
  const auto refused = [&](const char* op, const std::vector<HostTensor>& inputs) {
    const auto error = error_of([&] { (void)forward(op, {}, inputs); });
    EXPECT_TRUE(error) << op;
    return error ? error->message() : "";
  };
  EXPECT_THAT(refused("GatherND", {x, pairs}), HasSubstr("[1, 0]"));
  EXPECT_THAT(refused("GatherElements", {x, pairs}), HasSubstr("-4"));
  EXPECT_THAT(refused("ScatterND", {x, pairs, floats({2, 2}, {1, 2, 3, 4})}),
              HasSubstr("there are 3"));
  const HostTensor steps = floats({2, 1}, {1, 2});
  EXPECT_THAT(refused("ReverseSequence", {steps, labels({3})}), HasSubstr("length 3"));
}

}  // namespace
}  // namespace kerf::ops
