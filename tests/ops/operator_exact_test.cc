// What operators compute where a number is easily lost: integers that no float holds, windows
// without an end, scales that are no quotient of extents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/conformance/operator_runner.h"
#include "tests/support/errors.h"

namespace kerf::ops {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using Ints = std::vector<int64_t>;

constexpr int64_t kLast = std::numeric_limits<int64_t>::max();

HostTensor whole_numbers(DType dtype, Shape shape, std::vector<int64_t> values) {
  return {dtype, shape, {}, std::move(values)};
}
HostTensor reals(Shape shape, std::vector<float> values) {
  return {DType::kFloat32, shape, std::move(values), {}};
}

HostTensor computed(const std::string& op, const Attributes& attributes,
                    const std::vector<HostTensor>& inputs) {
  NodeFacts facts{attributes, {}, 1};
  for (const HostTensor& input : inputs)
    facts.inputs.push_back({{input.dtype, input.shape}, Role::kInput, false});
  const auto device = runtime::make_cpu_device();
  OperatorRunner runner(bind_operator(find_operator(op), facts), *device, 0);
  return runner.forward(inputs, {})[0];
}

TEST(ExactNumbers, PadsOfIntegersEndWhereTheTypeDoes) {
  const auto padded = [](DType dtype, double value) {
    return computed("Pad", {{"pads", Ints{0, 1}}, {"value", value}},
                    {whole_numbers(dtype, {1}, {5})})
        .integers;
  };
  EXPECT_THAT(padded(DType::kInt64, static_cast<double>(kLast)), ElementsAre(5, kLast));
  EXPECT_THAT(padded(DType::kUint64, 0x1p64), ElementsAre(5, -1));  // all bits
  EXPECT_THAT(padded(DType::kUint8, 300), ElementsAre(5, 255));
  EXPECT_THAT(padded(DType::kUint8, -1), ElementsAre(5, 0));
}

TEST(ExactNumbers, ShiftsByAllBitsLeaveNothing) {
  const auto shifted = [](DType dtype, int64_t a, int64_t bits) {
    return computed("BitShift", {{"direction", "RIGHT"}},
                    {whole_numbers(dtype, {1}, {a}), whole_numbers(dtype, {1}, {bits})})
        .integers[0];
  };
  EXPECT_EQ(shifted(DType::kUint64, -1, 64), 0);
  EXPECT_EQ(shifted(DType::kUint64, -1, 63), 1);
  EXPECT_EQ(shifted(DType::kUint64, -1, -1), 0);  // by 2^64 - 1
  EXPECT_EQ(shifted(DType::kInt64, -8, 64), -1);
  EXPECT_EQ(shifted(DType::kInt64, 8, 64), 0);
}

TEST(ExactNumbers, ShrinkingOfUnsignedNumbersHasNoLowerSide) {
  EXPECT_THAT(computed("Shrink", {{"lambd", 3.0}, {"bias", 1.0}},
                       {whole_numbers(DType::kUint64, {3}, {2, 3, 9})})
                  .integers,
              ElementsAre(0, 0, 8));
  EXPECT_THAT(computed("Shrink", {{"lambd", 3.0}, {"bias", 1.0}},
                       {whole_numbers(DType::kInt64, {3}, {-9, 3, 9})})
                  .integers,
              ElementsAre(-8, 0, 8));
}

TEST(ExactNumbers, AWindowWithoutAnEndSeesAll) {
  const HostTensor q = reals({1, 1, 2, 1}, {0, 0});
  const HostTensor keys = reals({1, 1, 3, 1}, {3, 4, 5});
  for (const char* window : {"right_window_size", "left_window_size"})
    EXPECT_THAT(computed("Attention", {{window, kLast}}, {q, keys, keys}).floats,
                ElementsAre(FloatNear(4, 1e-5F), FloatNear(4, 1e-5F)));
}

// Pairs of query and key, counted one by one.
TEST(ExactNumbers, AttentionCostsWhatItsQueriesSee) {
  for (const int64_t queries : {1, 5, 9})
    for (const int64_t keys : {1, 4, 9})
      for (const int64_t left : {-1, 0, 2, 20})
        for (const int64_t right : {-1, 0, 3, 20})
          for (const int64_t causal : {0, 1})
            for (const int64_t first : {0, 2}) {
              if (first >= queries) continue;
              NodeFacts facts{
                  {{"left_window_size", left}, {"right_window_size", right}, {"is_causal", causal}},
                  {},
                  1};
              for (const int64_t extent : {queries, keys, keys})
                facts.inputs.push_back({{DType::kFloat32, {1, 1, extent, 1}}, Role::kInput, false});
              const auto op = bind_operator(find_operator("Attention"), facts);
              Box box = Box::whole(static_cast<int>(op->space().axes.size()));
              box.axes[static_cast<size_t>(op->space().find("queries"))] =
                  IndexSet::range(first, queries);
              int pairs = 0;
              for (int64_t t = first; t < queries; ++t)
                for (int64_t s = 0; s < keys; ++s)
                  pairs += (left < 0 || s >= t - left) && (right < 0 || s <= t + right) &&
                                   (causal == 0 || s <= t)
                               ? 1
                               : 0;
              EXPECT_EQ(op->cost(local_specs(*op, box, 1, 1)).forward_flops, 9 * pairs)
                  << queries << " " << keys << " " << left << " " << right << " " << causal;
            }
}

TEST(ExactNumbers, AKeptAspectHasOneScale) {
  const auto resized = [](const std::string& policy, Shape x, Ints sizes, Ints axes) {
    std::vector<float> ramp;
    for (int64_t i = 0; i < x.elements(); ++i) ramp.push_back(static_cast<float>(i));
    return computed("Resize",
                    {{"mode", "linear"},
                     {"sizes", std::move(sizes)},
                     {"axes", std::move(axes)},
                     {"keep_aspect_ratio_policy", policy}},
                    {reals(x, ramp)});
  };
  // By 1/2: 5 rows become 3, whose places are 0.5, 2.5 and 4.5.
  const HostTensor less = resized("not_larger", {1, 1, 5, 10}, {3, 5}, {2, 3});
  EXPECT_EQ(to_string(less.shape), "[1, 1, 3, 5]");
  EXPECT_FLOAT_EQ(less.floats[0], 5.5F);
  EXPECT_FLOAT_EQ(less.floats[5], 25.5F);
  EXPECT_FLOAT_EQ(less.floats[10], 40.5F);  // the last row is 4
  // By 3/4: 2 rows stay as many, but lie at 1/6 and 1.5.
  const HostTensor more = resized("not_smaller", {1, 1, 2, 4}, {1, 3}, {2, 3});
  EXPECT_EQ(to_string(more.shape), "[1, 1, 2, 3]");
  EXPECT_NEAR(double{more.floats[3] - more.floats[0]}, 4 * (1 - 1.0 / 6), 1e-5);
}

TEST(ExactNumbers, TheBatchHasNoScale) {
  NodeFacts facts{{{"sizes", Ints{7, 2, 8}}, {"keep_aspect_ratio_policy", "not_larger"}},
                  {{{DType::kFloat32, {kBatch, 2, 4}}, Role::kInput, false}},
                  1};
  EXPECT_EQ(to_string(bind_operator(find_operator("Resize"), facts)->outputs()[0].shape),
            "[N, 2, 4]");
}

TEST(ExactNumbers, StepsOfASequenceAreThoseItHas) {
  for (const int64_t steps : {-5, 3, 1000000000}) {
    const auto error = tests::error_of([&] {
      (void)computed("RNN", {},
                     {reals({2, 1, 1}, {1, 1}), reals({1, 1, 1}, {1}), reals({1, 1, 1}, {1}),
                      reals({1, 2}, {0, 0}), whole_numbers(DType::kInt32, {1}, {steps})});
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_THAT(error->message(), HasSubstr("sample 0"));
  }
}

}  // namespace
}  // namespace kerf::ops
