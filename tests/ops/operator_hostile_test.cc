// Nodes as only a broken or a hostile file has them: each is refused by name, in no time, and what
// only looks so is taken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "ops/operator.h"
#include "tests/support/errors.h"

namespace kerf::ops {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using tests::error_of;
using Ints = std::vector<int64_t>;

constexpr int64_t kHuge = int64_t{1} << 40;

ValueSpec of_floats(Shape shape) { return {DType::kFloat32, shape}; }

std::shared_ptr<const BoundOperator> bind_node(const std::string& op, const Attributes& attributes,
                                               const std::vector<ValueSpec>& inputs) {
  NodeFacts facts{attributes, {}, 1};
  for (const ValueSpec& spec : inputs) facts.inputs.push_back({spec, Role::kInput, false});
  return bind_operator(find_operator(op), facts);
}

// What the Error{kUsage} says; "" where the node is taken.
std::string said(const std::string& op, const Attributes& attributes,
                 const std::vector<ValueSpec>& inputs) {
  const auto error = error_of([&] { (void)bind_node(op, attributes, inputs); });
  if (!error) return "";
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
  return error->message();
}

std::string given_shape(const std::string& op, const Attributes& attributes,
                        const std::vector<ValueSpec>& inputs) {
  return to_string(bind_node(op, attributes, inputs)->outputs()[0].shape);
}

TEST(HostileNodes, LongLinesTakeNoTime) {
  const ValueSpec line = of_floats({kBatch, 1, kHuge - 2});
  EXPECT_EQ(said("Conv", {}, {line, of_floats({1, 1, 1})}), "");
  EXPECT_EQ(said("MaxPool", {{"kernel_shape", Ints{2}}, {"pads", Ints{1, 1}}}, {line}), "");
  const ValueSpec queries = of_floats({1, 1, kHuge, 1});
  const ValueSpec keys = of_floats({1, 1, 7, 1});
  const auto attention =
      bind_node("Attention", {{"left_window_size", int64_t{3}}}, {queries, keys, keys});
  const Box all = Box::whole(static_cast<int>(attention->space().axes.size()));
  // 7 keys for each query up to the fourth, then ever fewer of them.
  EXPECT_EQ(attention->cost(local_specs(*attention, all, 1, 1)).forward_flops, 9 * (4 * 7 + 21));
}

TEST(HostileNodes, WhatIsListedIsLimited) {
  const auto resize = [](const Shape& x, const Attributes& attributes) {
    return said("Resize", attributes, {of_floats(x)});
  };
  EXPECT_THAT(
      resize(
          {1, 1, kHuge},
          {{"sizes", Ints{1}}, {"axes", Ints{2}}, {"mode", "linear"}, {"antialias", int64_t{1}}}),
      HasSubstr("neighbours"));
  const int64_t large = int64_t{1} << 23;
  EXPECT_THAT(resize({1, 2, 2}, {{"sizes", Ints{1, large, large}}, {"mode", "cubic"}}),
              HasSubstr("neighbours"));
  EXPECT_THAT(resize({1, 0, 2}, {{"sizes", Ints{1, 2, 2}}}), HasSubstr("axis 1"));
}

TEST(HostileNodes, ExtentsAreSmallEnoughToCountWith) {
  const ValueSpec nothing = of_floats({kHuge * 2, 0});
  EXPECT_THAT(said("Relu", {}, {nothing}), AllOf(HasSubstr("Relu"), HasSubstr("indices")));
  const ValueSpec much = of_floats({kHuge, kHuge});
  EXPECT_THAT(said("Relu", {}, {much}), HasSubstr("more elements"));
  const ValueSpec half = of_floats({kHuge, 0});
  EXPECT_THAT(said("Concat", {{"axis", int64_t{0}}}, {half, half}), HasSubstr("Concat"));
  EXPECT_THAT(said("SpaceToDepth", {{"blocksize", int64_t{1} << 15}},
                   {of_floats({0, kHuge, int64_t{1} << 15, int64_t{1} << 15})}),
              HasSubstr("more elements"));
  EXPECT_THAT(said("ReduceMean", {{"axes", Ints{1, 2}}}, {of_floats({0, kHuge, kHuge})}),
              HasSubstr("more elements"));
  EXPECT_THAT(said("GlobalAveragePool", {}, {of_floats({0, 1, kHuge, kHuge})}),
              HasSubstr("more elements"));
  EXPECT_THAT(said("ConvTranspose", {{"strides", Ints{1 << 20}}},
                   {of_floats({1, 1, kHuge}), of_floats({1, 1, 1})}),
              HasSubstr("indices"));
  EXPECT_THAT(said("Conv", {{"dilations", Ints{1 << 20}}},
                   {of_floats({1, 1, kHuge}), of_floats({1, 1, kHuge})}),
              HasSubstr("windows"));
}

TEST(HostileNodes, NumbersAreReadWholly) {
  const int64_t wraps = int64_t{1} << 32;
  const ValueSpec x = of_floats({5, 4, 3});
  EXPECT_THAT(said("GatherND", {{"batch_dims", wraps}}, {x, {DType::kInt64, {5, 1}}}),
              HasSubstr("batch_dims 4294967296"));
  EXPECT_THAT(said("ReverseSequence", {{"time_axis", wraps}, {"batch_axis", int64_t{1}}},
                   {x, {DType::kInt64, {4}}}),
              HasSubstr("time axis 4294967296"));
}

TEST(HostileNodes, TheBatchIsNoAxisOfSpaceNorOfAMean) {
  const ValueSpec late = of_floats({2, 3, kBatch});
  EXPECT_THAT(said("Conv", {}, {late, of_floats({1, 3, 1})}), HasSubstr("axis 2 is the batch"));
  EXPECT_THAT(said("ConvTranspose", {}, {late, of_floats({3, 1, 1})}), HasSubstr("the batch"));
  EXPECT_THAT(said("AveragePool", {{"kernel_shape", Ints{1}}}, {late}), HasSubstr("the batch"));
  EXPECT_THAT(said("MaxUnpool", {{"kernel_shape", Ints{1}}}, {late, {DType::kInt64, late.shape}}),
              HasSubstr("the batch"));
  const ValueSpec images = of_floats({kBatch, 3, 2, 2});
  EXPECT_THAT(said("MeanVarianceNormalization", {}, {images}), HasSubstr("micro-batches"));
  EXPECT_EQ(said("MeanVarianceNormalization", {{"axes", Ints{2, 3}}}, {images}), "");
  EXPECT_THAT(said("LpNormalization", {{"axis", int64_t{0}}}, {images}), HasSubstr("batch"));
}

TEST(HostileNodes, WindowsOfWholeInputsRoundDown) {
  const Attributes valid{{"kernel_shape", Ints{2}},
                         {"strides", Ints{2}},
                         {"auto_pad", "VALID"},
                         {"ceil_mode", int64_t{1}}};
  EXPECT_EQ(given_shape("MaxPool", valid, {of_floats({kBatch, 1, 5})}), "[N, 1, 2]");
  EXPECT_THAT(
      said("MaxUnpool",
           {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"output_shape", Ints{1, 1, 3}}},
           {of_floats({1, 1, 2}), {DType::kInt64, {1, 1, 2}}}),
      AllOf(HasSubstr("count the elements of [1, 1, 4]"), HasSubstr("[1, 1, 3]")));
}

TEST(HostileNodes, MisfitsAreSaidBeforeTheyAreRead) {
  const ValueSpec x = of_floats({kBatch, 4});
  EXPECT_THAT(said("SumLoss", {}, {of_floats({kBatch}), of_floats({1, 1, 5})}),
              HasSubstr("cannot weigh"));
  EXPECT_THAT(said("Pad", {{"pads", Ints{0, 1}}}, {x}), HasSubstr("two pads"));
  EXPECT_EQ(said("Pad", {{"pads", Ints{0, 1}}, {"axes", Ints{1}}}, {x}), "");
  EXPECT_THAT(said("ChannelStatistics", {{"momentum", 1.5}}, {of_floats({2, 3}), of_floats({3})}),
              HasSubstr("momentum 1.5"));
  EXPECT_THAT(said("Compress", {{"axis", int64_t{1}}}, {x}), HasSubstr("condition"));
  EXPECT_THAT(said("Unsqueeze", {{"axes", Ints{0, 1, 2, 3, 4, 5, 6, 12}}}, {x}),
              HasSubstr("more than 8"));
  EXPECT_EQ(given_shape("Unsqueeze", {{"axes", Ints{}}}, {x}), "[N, 4]");
  EXPECT_THAT(said("LayerNormalization", {}, {of_floats({kBatch, 0}), of_floats({0})}),
              HasSubstr("no element"));
  EXPECT_THAT(said("LayerNormalization", {}, {x, of_floats({1})}), HasSubstr("expand"));
  EXPECT_THAT(said("LSTM", {},
                   {of_floats({2, kBatch, 3}),
                    of_floats({1, 8, 3}),
                    of_floats({1, 8, 2}),
                    of_floats({1, 16}),
                    {DType::kInt64, {kBatch}}}),
              HasSubstr("int32 for sequence_lens"));
  EXPECT_THAT(said("Attention", {},
                   {of_floats({kBatch, 1, 4, 2}), of_floats({kBatch, 1, 6, 2}),
                    of_floats({kBatch, 1, 6, 2}), of_floats({4, 5})}),
              HasSubstr("padded to 6"));
}

TEST(HostileNodes, SlicesOfNothingAndToTheEnd) {
  const auto slice = [](const Shape& x, int64_t start, int64_t end, int64_t step) {
    return given_shape(
        "Slice",
        {{"starts", Ints{start}}, {"ends", Ints{end}}, {"steps", Ints{step}}, {"axes", Ints{1}}},
        {of_floats(x)});
  };
  constexpr int64_t kLast32 = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(slice({kBatch, 0}, 5, -5, -1), "[N, 0]");
  EXPECT_EQ(slice({1, kLast32 + int64_t{9}}, 0, kLast32, 1), "[1, 2147483647]");
  EXPECT_EQ(slice({kBatch, 6}, 0, kLast32, 1), "[N, 6]");
}

TEST(HostileNodes, ProductsOfTooManyAxesAreNamed) {
  EXPECT_THAT(said("Einsum", {{"equation", "abcde,fghij->a"}},
                   {of_floats({1, 1, 1, 1, 1}), of_floats({1, 1, 1, 1, 1})}),
              HasSubstr("10 letters"));
  EXPECT_THAT(said("Einsum", {{"equation", "...i->i"}}, {of_floats({3, 4})}), HasSubstr("'...'"));
  const ValueSpec stacks = of_floats({1, 1, 1, 1, 1, 1, 2, 2});
  EXPECT_THAT(said("MatMul", {}, {stacks, stacks}), HasSubstr("6 stacks"));
}

}  // namespace
}  // namespace kerf::ops
