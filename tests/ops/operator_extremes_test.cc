// Numbers at the ends of their types, NaN among them, and nodes at the ends of what operators take.
#include <gmock/gmock.h>

#include <cmath>

#include "ops/number.h"
#include "ops/onnx_types.h"
#include "tests/ops/operator_values.h"
#include "tests/support/errors.h"

namespace kerf::ops {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsNan;

class OperatorExtremes : public OperatorValues {
 protected:
  // The message of the Error{kUsage} by which a node of float32 inputs is refused; "" if it is not.
  static std::string refusal(const std::string& op, const Attributes& attributes,
                             const std::vector<Shape>& inputs, int outputs = 1) {
    NodeFacts facts{attributes, {}, outputs};
    for (const Shape& shape : inputs)
      facts.inputs.push_back({{DType::kFloat32, shape}, Role::kActivation, true});
    const auto error = tests::error_of([&] { (void)bind_operator(find_operator(op), facts); });
    if (!error) return "";
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    return error->message();
  }
};

// Where 1 + erf has few digits left, and where it has none.
TEST_F(OperatorExtremes, GeluKeepsItsDigitsFarBelowNothing) {
  std::vector<float> x;
  for (float each = -13.0F; each < 13.0F; each += 0.0317F) x.push_back(each);
  const auto count = static_cast<int64_t>(x.size());
  const HostTensor values = floats({count}, x);
  const auto y = forward("Gelu", {}, {values});
  const auto slopes = gradient("Gelu", {}, {values}, floats({count}, std::vector(x.size(), 1.0F)));
  for (size_t i = 0; i < x.size(); ++i) {
    const double each = x[i];
    const double below = 0.5 * std::erfc(-each * std::sqrt(0.5));
    const double density = std::exp(-0.5 * each * each) * 0.3989422804014327;
    EXPECT_NEAR(y.floats[i], each * below, 5e-6 * std::abs(each * below)) << each;
    EXPECT_NEAR(slopes.floats[i], below + each * density, 5e-6 * (below - each * density)) << each;
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(forward("Gelu", {}, {floats({4}, {kInfinity, 1e30F, -1e30F, kNan})}).floats,
              ElementsAre(kInfinity, 1e30F, 0.0F, IsNan()));
}

// Sixteen scores are looked at together.
TEST_F(OperatorExtremes, AScoreThatIsNanIsSeenByItsQuery) {
  for (const int64_t keys : {1, 2, 15, 16, 17, 33})
    for (const int64_t place : {int64_t{0}, keys / 2, keys - 1}) {
      std::vector<float> k(static_cast<size_t>(keys), 1.0F);
      k[static_cast<size_t>(place)] = kNan;
      const HostTensor values = floats({1, 1, keys, 1}, std::vector<float>(k.size(), 1.0F));
      const auto y =
          forward("Attention", {}, {floats({1, 1, 1, 1}, {1}), floats({1, 1, keys, 1}, k), values});
      EXPECT_THAT(y.floats, ElementsAre(IsNan())) << place << " of " << keys;
    }
}

TEST_F(OperatorExtremes, MeansOfIntegersAreOfTheirWholeSum) {
  const auto mean = [&](DType type, std::vector<int64_t> values) {
    const auto count = static_cast<int64_t>(values.size());
    return forward("ReduceMean", {{"keepdims", int64_t{0}}},
                   {integers(type, {count}, std::move(values))})
        .integers[0];
  };
  EXPECT_EQ(mean(DType::kUint8, {200, 200}), 200);
  EXPECT_EQ(mean(DType::kUint8, std::vector<int64_t>(256, 200)), 200);
  EXPECT_EQ(mean(DType::kInt8, {-128, -126, -125}), -126);
  EXPECT_EQ(mean(DType::kUint16, std::vector<int64_t>(65536, 65535)), 65535);
  EXPECT_EQ(mean(DType::kInt32, {2147483647, 2147483645}), 2147483646);
}

// Recurrences take several steps at once of few samples; of 63 they took two where 65 were granted
// the memory of one.
TEST_F(OperatorExtremes, ARecurrenceOfFewerSamplesTakesNoMoreMemory) {
  constexpr int64_t kHidden = 256;
  NodeFacts facts{{{"hidden_size", kHidden}}, {}, 1};
  const auto add = [&](const Shape& shape, Role role) {
    facts.inputs.push_back({{DType::kFloat32, shape}, role, true});
  };
  add({3, kBatch, 4}, Role::kActivation);
  add({1, 4 * kHidden, 4}, Role::kParameter);
  add({1, 4 * kHidden, kHidden}, Role::kParameter);
  OperatorRunner runner(bind_operator(find_operator("LSTM"), facts), *device_, 65);
  for (const int64_t samples : {1, 31, 33, 63, 64, 65}) {
    const auto y = runner.forward({zeros({3, samples, 4}), zeros(facts.inputs[1].spec.shape),
                                   zeros(facts.inputs[2].spec.shape)},
                                  {.samples = samples});
    EXPECT_THAT(y[0].floats, testing::Each(0)) << samples;
  }
}

TEST_F(OperatorExtremes, AnEquationHasNoMoreLettersThanATensorHasAxes) {
  const Shape eight{2, 2, 2, 2, 2, 2, 2, 2};
  const auto refused = [&](const char* equation, const Shape& a, const Shape& b) {
    return refusal("Einsum", {{"equation", equation}}, {a, b});
  };
  EXPECT_EQ(refused("abcdefgh,efgh->abcd", eight, {2, 2, 2, 2}), "");
  EXPECT_THAT(refused("abcdefgh,efghi->abcdi", eight, {2, 2, 2, 2, 2}),
              testing::AllOf(HasSubstr("abcdefgh,efghi->abcdi"), HasSubstr("9 letters")));
  EXPECT_THAT(refused("abcdefgh,efghij->abcdij", eight, {2, 2, 2, 2, 2, 2}),
              HasSubstr("10 letters"));
}

TEST_F(OperatorExtremes, OnlyImagesOfFourAxesHaveTheirChannelsLast) {
  const Attributes pool{{"kernel_shape", std::vector<int64_t>{1}}, {"channels_last", int64_t{1}}};
  const Attributes last{{"channels_last", int64_t{1}}};
  EXPECT_THAT(refusal("AveragePool", pool, {{kBatch, 8, 4}}), HasSubstr("[N, 8, 4]"));
  EXPECT_THAT(refusal("Conv", last, {{kBatch, 4, 4, 4, 2}, {3, 2, 1, 1, 1}}), HasSubstr("4 axes"));
  EXPECT_THAT(refusal("Relu", last, {{kBatch, 4}}), HasSubstr("channels_last"));
  const Attributes image{{"kernel_shape", std::vector<int64_t>{1, 1}},
                         {"channels_last", int64_t{1}}};
  EXPECT_EQ(refusal("MaxPool", image, {{kBatch, 40, 40, 2}}), "");
  EXPECT_THAT(refusal("MaxPool", image, {{kBatch, 40, 40, 2}}, 2), HasSubstr("Indices"));
}

TEST_F(OperatorExtremes, AWindowHasNoMoreEntriesThanCanBeCounted) {
  const auto pool = [&](int64_t extent) {
    const int64_t pad = extent - 4;
    return refusal("MaxPool",
                   {{"kernel_shape", std::vector<int64_t>{extent, extent}},
                    {"pads", std::vector<int64_t>{pad, pad, 0, 0}}},
                   {{kBatch, 1, 4, 4}});
  };
  EXPECT_EQ(pool(40000), "");
  EXPECT_THAT(pool(60000), HasSubstr("kernel_shape"));
}

// In no time: what lies on the padding is not looked at.
TEST_F(OperatorExtremes, OfAWindowOnlyWhatLiesOnTheInputIsVisited) {
  const std::vector<int64_t> kernel{1, 1 << 15, 1 << 15};
  constexpr int64_t kPad = (1 << 15) - 2;
  const HostTensor x = floats({1, 64, 1, 2, 2}, std::vector<float>(256, 3.0F));
  const auto y = forward("LpPool",
                         {{"kernel_shape", kernel},
                          {"p", int64_t{1}},
                          {"pads", std::vector<int64_t>{0, kPad, kPad, 0, 0, 0}}},
                         {x});
  EXPECT_EQ(y.floats, std::vector<float>(64, 12.0F));
  const HostTensor channels = floats({4096, 2, 1, 1}, std::vector<float>(8192, 1.0F));
  const auto scaled =
      forward("LRN", {{"size", int64_t{1} << 20}, {"alpha", 0.0}, {"bias", 1.0}}, {channels});
  EXPECT_EQ(scaled.floats, channels.floats);
}

TEST_F(OperatorExtremes, OfNoTruthsNoneIsFalse) {
  const HostTensor none = integers(DType::kBool, {2, 0}, {});
  const Attributes rows{{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}};
  EXPECT_THAT(forward("ReduceMin", rows, {none}).integers, ElementsAre(1, 1));
  EXPECT_THAT(forward("ReduceMax", rows, {none}).integers, ElementsAre(0, 0));
}

// Ties but for a last digit, which float has no room for.
TEST_F(OperatorExtremes, WhatIsCastToSixteenBitsIsRoundedOnce) {
  constexpr int64_t kTie = (int64_t{1} << 40) + (int64_t{1} << 32);
  const auto cast = [&](DType to, std::vector<int64_t> values) {
    const auto count = static_cast<int64_t>(values.size());
    return forward("Cast", {{"to", int64_t{onnx_type(to)}}},
                   {integers(DType::kInt64, {count}, std::move(values))})
        .floats;
  };
  EXPECT_THAT(cast(DType::kBFloat16, {kTie, kTie + 1, -kTie - 1}),
              ElementsAre(0x1p40F, 0x1.02p40F, -0x1.02p40F));
  EXPECT_THAT(cast(DType::kBFloat16, {kTie * 4096, kTie * 4096 + 1}),
              ElementsAre(0x1p52F, 0x1.02p52F));
}

// That nothing of it is undefined, sanitizers see.
TEST_F(OperatorExtremes, IntegersWrapAround) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int32_t>::min();
  const auto reduce = [&](const char* op, DType type, std::vector<int64_t> values) {
    const auto count = static_cast<int64_t>(values.size());
    return forward(op, {}, {integers(type, {count}, std::move(values))}).integers[0];
  };
  EXPECT_EQ(reduce("ReduceSum", DType::kInt32, {kMost, 1}), kLeast);
  EXPECT_EQ(reduce("ReduceProd", DType::kInt32, {65536, 65536}), 0);
  EXPECT_EQ(reduce("ReduceL1", DType::kInt32, {kLeast}), kLeast);
  EXPECT_EQ(reduce("ReduceSumSquare", DType::kUint16, {65535}), 1);
  const auto ints = [](const Shape& shape, std::vector<int64_t> values) {
    return integers(DType::kInt32, shape, std::move(values));
  };
  EXPECT_THAT(forward("CumSum", {{"axis", int64_t{0}}}, {ints({2}, {kMost, 1})}).integers,
              ElementsAre(kMost, kLeast));
  EXPECT_THAT(forward("MatMul", {}, {ints({1, 2}, {kMost, 1}), ints({2, 1}, {1, 1})}).integers,
              ElementsAre(kLeast));
  for (const char* reduction : {"add", "mul"})
    EXPECT_THAT(forward("ScatterElements", {{"reduction", reduction}},
                        {ints({1}, {kMost}), integers(DType::kInt64, {1}, {0}), ints({1}, {kMost})})
                    .integers,
                ElementsAre(*reduction == 'a' ? -2 : 1));
}
static_assert(number::product(uint16_t{65535}, uint16_t{65535}) == 1);
static_assert(number::sum(int8_t{127}, int8_t{1}) == -128);
static_assert(number::negative(std::numeric_limits<int64_t>::min()) < 0);

TEST_F(OperatorExtremes, AProductThatUnderflowsHasItsGradients) {
  const auto slopes = [&](std::vector<float> x) {
    const auto count = static_cast<int64_t>(x.size());
    return gradient("ReduceProd", {{"keepdims", int64_t{0}}}, {floats({count}, std::move(x))},
                    floats({}, {1}))
        .floats;
  };
  EXPECT_THAT(slopes({1e-30F, 1e-20F}),
              ElementsAre(testing::FloatEq(1e-20F), testing::FloatEq(1e-30F)));
  EXPECT_THAT(slopes({1e30F, 1e20F, 0}), ElementsAre(0, 0, testing::Gt(1e38F)));
}

TEST_F(OperatorExtremes, AQueryThatSeesNoKeyGetsNothingWhateverThereIs) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<HostTensor> inputs{
      floats({1, 1, 2, 1}, {1, 1}), floats({1, 1, 2, 1}, {kNan, 1}),
      floats({1, 1, 2, 1}, {infinity, 1}), integers(DType::kBool, {2, 2}, {0, 0, 1, 1})};
  EXPECT_THAT(forward("Attention", {}, inputs).floats, ElementsAre(0, IsNan()));
  EXPECT_THAT(gradient("Attention", {}, inputs, floats({1, 1, 2, 1}, {1, 1})).floats,
              ElementsAre(0, IsNan()));
}

TEST_F(OperatorExtremes, SoftmaxHasNoSharesWhereNoneIsANumber) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const int64_t axis : {0, 1}) {  // apart, and side by side
    const Shape shape = axis == 1 ? Shape{1, 3} : Shape{3, 1};
    const auto shares = [&](std::vector<float> x) {
      return forward("Softmax", {{"axis", axis}}, {floats(shape, std::move(x))}).floats;
    };
    EXPECT_THAT(shares({1, kNan, 2}), testing::Each(IsNan()));
    EXPECT_THAT(shares({1, infinity, 2}), testing::Each(IsNan()));
    EXPECT_THAT(shares({-infinity, -infinity, -infinity}), testing::Each(IsNan()));
    EXPECT_THAT(shares({-infinity, 5, 5}), ElementsAre(0, 0.5F, 0.5F));
  }
  EXPECT_THAT(forward("Softmax", {{"axis", int64_t{0}}}, {floats({2, 2}, {kNan, 3, 1, 3})}).floats,
              ElementsAre(IsNan(), 0.5F, IsNan(), 0.5F));
}

TEST_F(OperatorExtremes, LogarithmsOfSharesAreKeptBesideALargeNumber) {
  const auto y = forward("LogSoftmax", {{"axis", int64_t{1}}}, {floats({1, 2}, {1e30F, 1e30F})});
  EXPECT_THAT(y.floats, testing::Each(testing::FloatEq(-0.69314718F)));
}

TEST_F(OperatorExtremes, HardmaxPicksTheFirstNan) {
  const Attributes rows{{"axis", int64_t{1}}};
  EXPECT_THAT(forward("Hardmax", rows, {floats({1, 4}, {1, kNan, 3, kNan})}).floats,
              ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(forward("Hardmax", rows, {floats({1, 3}, {1, 3, 3})}).floats, ElementsAre(0, 1, 0));
}

TEST_F(OperatorExtremes, OneHotHasNoPlaceForNanOrAHugeIndex) {
  const Attributes two{{"depth", int64_t{2}}, {"values", TensorLiteral{DType::kInt8, {2}, {0, 1}}}};
  EXPECT_THAT(forward("OneHot", two, {floats({4}, {kNan, 1e30F, -1e30F, 1})}).integers,
              ElementsAre(0, 0, 0, 0, 0, 0, 0, 1));
  EXPECT_THAT(forward("OneHot", two, {integers(DType::kUint64, {2}, {-1, 1})}).integers,
              ElementsAre(0, 0, 0, 1));
}

TEST_F(OperatorExtremes, AnUnknownLabelIsNamedByItsPlaceInTheStep) {
  NodeFacts facts;
  facts.inputs.push_back({{DType::kFloat32, {kBatch, 2, 3}}, Role::kActivation, true});
  facts.inputs.push_back({{DType::kInt64, {kBatch, 3}}, Role::kLabel});
  const Box part{{IndexSet::of({1, 5}), IndexSet::all(), IndexSet::of({0, 2})}};
  OperatorRunner runner(bind_operator(find_operator("PickLabel"), facts), *device_, part, 8);
  const auto error = tests::error_of([&] {
    (void)runner.forward({zeros({2, 2, 2}), integers(DType::kInt64, {2, 2}, {0, 0, 0, 4})},
                         {.samples = 6});
  });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), HasSubstr("sample 5 at position [2]"));
}

}  // namespace
}  // namespace kerf::ops
