// What operators compute, by example: the meaning that no derivative can check.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/conformance/operator_runner.h"
#include "tests/support/errors.h"

namespace kerf::ops {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using tests::error_of;
using Ints = std::vector<int64_t>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

HostTensor floats(Shape shape, std::vector<float> values) {
  return {DType::kFloat32, shape, std::move(values), {}};
}
HostTensor labels(std::vector<int64_t> values) {
  return {DType::kInt64, {static_cast<int64_t>(values.size())}, {}, std::move(values)};
}

class OperatorValues : public testing::Test {
 protected:
  HostTensor forward(const std::string& op, const Attributes& attributes,
                     const std::vector<HostTensor>& inputs, double normaliser = 1,
                     bool training = true) {
    std::vector<ValueSpec> specs;
    for (const auto& input : inputs) specs.push_back({input.dtype, input.shape});
    const Shape shape = find_operator(op).infer(attributes, specs)[0].shape;
    OperatorRunner runner(find_operator(op), attributes, *device_);
    return runner.forward(inputs, {Box::whole(shape.rank()), shape, 0, training, normaliser});
  }
  HostTensor dropped(const Where& where, const HostTensor& x) {
    OperatorRunner runner(find_operator("Dropout"), {{"ratio", 0.25}}, *device_);
    return runner.forward({x}, where);
  }

  std::unique_ptr<runtime::Device> device_ = runtime::make_cpu_device();
};

TEST_F(OperatorValues, ReluKeepsNan) {
  const auto y = forward("Relu", {}, {floats({1, 3}, {-1, 2, kNan})}).floats;
  EXPECT_THAT(y, ElementsAre(0, 2, testing::IsNan()));
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
    OperatorRunner runner(find_operator("MaxPool"), {{"kernel_shape", kernel}, {"strides", kernel}},
                          *device_);
    const HostTensor x = floats({1, 1, kernel[0], kernel[1]}, {3, 7, 7, 7});
    const auto gradient =
        runner.gradient({x}, {Box::whole(4), {1, 1, 1, 1}}, floats({1, 1, 1, 1}, {5}),
                        {{0, false, zeros(x.shape)}}, false);
    EXPECT_THAT(gradient[0].floats, ElementsAre(0, 5, 0, 0));
  }
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
  const auto loss = forward("SoftmaxCrossEntropyLoss", {}, {scores, labels({1, 1})}, 8);
  EXPECT_NEAR(loss.floats[0], (std::log(2.0) + 1000) / 8, 1e-4);
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

TEST_F(OperatorValues, DropoutIsTheIdentityOutsideTraining) {
  const HostTensor x = floats({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(forward("Dropout", {{"ratio", 0.9}}, {x}, 1, false).floats, x.floats);
}

TEST_F(OperatorValues, DropoutDropsItsShareAndScalesTheRest) {
  HostTensor x = zeros({100, 100});
  x.floats.assign(10'000, 3);
  const auto y = dropped({Box::whole(2), x.shape}, x);
  const auto kept = std::count(y.floats.begin(), y.floats.end(), 4.0F);
  EXPECT_NEAR(static_cast<double>(kept), 7'500, 200);
  EXPECT_EQ(std::count(y.floats.begin(), y.floats.end(), 0.0F) + kept, 10'000);
}

// However a step is cut into rows, the same elements are dropped.
TEST_F(OperatorValues, DropoutSeesThePlaceOfASampleInItsStep) {
  HostTensor x = zeros({6, 5});
  x.floats.assign(30, 1);
  const auto whole = dropped({Box::whole(2), x.shape}, x).floats;
  const HostTensor rest = floats({4, 5}, std::vector<float>(20, 1));
  const auto later = dropped({Box::whole(2), rest.shape, 2}, rest).floats;
  EXPECT_EQ(std::vector<float>(whole.begin() + 10, whole.end()), later);
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

}  // namespace
}  // namespace kerf::ops
