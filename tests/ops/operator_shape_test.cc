// What operators accept, and what they say to what they do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "ops/operator.h"
#include "tests/support/errors.h"

namespace kerf::ops {
namespace {

using testing::HasSubstr;
using tests::error_of;
using Ints = std::vector<int64_t>;

ValueSpec f32(Shape shape) { return {DType::kFloat32, shape}; }

std::shared_ptr<const BoundOperator> bound(const std::string& op, const Attributes& attributes,
                                           const std::vector<ValueSpec>& inputs) {
  NodeFacts facts{attributes, {}, 1};
  for (const ValueSpec& spec : inputs)
    facts.inputs.push_back({spec, Role::kActivation, is_floating(spec.dtype)});
  return bind_operator(find_operator(op), facts);
}

std::string inferred(const std::string& op, const Attributes& attributes,
                     const std::vector<ValueSpec>& inputs) {
  return to_string(bound(op, attributes, inputs)->outputs()[0].shape);
}

// The message of the Error{kUsage}; "" if there is none.
std::string refusal(const std::string& op, const Attributes& attributes,
                    const std::vector<ValueSpec>& inputs) {
  const auto error = error_of([&] { (void)bound(op, attributes, inputs); });
  if (!error) return "";
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
  return error->message();
}

TEST(OperatorShapes, FollowLeNet) {
  EXPECT_EQ(inferred("Conv", {{"pads", Ints{2, 2, 2, 2}}},
                     {f32({kBatch, 1, 28, 28}), f32({6, 1, 5, 5}), f32({6})}),
            "[N, 6, 28, 28]");
  EXPECT_EQ(inferred("MaxPool", {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}},
                     {f32({kBatch, 6, 28, 28})}),
            "[N, 6, 14, 14]");
  EXPECT_EQ(inferred("Flatten", {}, {f32({kBatch, 16, 5, 5})}), "[N, 400]");
  EXPECT_EQ(
      inferred("Gemm", {{"transB", int64_t{1}}}, {f32({kBatch, 400}), f32({120, 400}), f32({120})}),
      "[N, 120]");
  EXPECT_EQ(inferred("SoftmaxCrossEntropyLoss", {}, {f32({kBatch, 10}), {DType::kInt64, {kBatch}}}),
            "[]");
}

TEST(OperatorShapes, WindowsFollowTheirAttributes) {
  const auto pool = [](Attributes attributes, Shape x) {
    attributes.try_emplace("kernel_shape", Ints{3, 3});
    return inferred("MaxPool", attributes, {f32(x)});
  };
  EXPECT_EQ(pool({}, {kBatch, 2, 7, 8}), "[N, 2, 5, 6]");
  EXPECT_EQ(pool({{"strides", Ints{2, 3}}}, {kBatch, 2, 8, 8}), "[N, 2, 3, 2]");
  EXPECT_EQ(pool({{"strides", Ints{2, 3}}, {"ceil_mode", int64_t{1}}}, {kBatch, 2, 8, 8}),
            "[N, 2, 4, 3]");
  EXPECT_EQ(pool({{"auto_pad", "SAME_UPPER"}, {"strides", Ints{2, 2}}}, {kBatch, 2, 7, 8}),
            "[N, 2, 4, 4]");
  EXPECT_EQ(pool({{"dilations", Ints{2, 3}}}, {kBatch, 2, 7, 8}), "[N, 2, 3, 2]");
}

TEST(OperatorShapes, ReshapeResolvesZeroAndMinusOne) {
  const auto reshape = [](Ints shape) {
    return inferred("Reshape", {{"shape", std::move(shape)}}, {f32({kBatch, 4, 6})});
  };
  EXPECT_EQ(reshape({0, 24}), "[N, 24]");
  EXPECT_EQ(reshape({-1, 8, 3}), "[N, 8, 3]");
  EXPECT_EQ(reshape({0, 0, 3, -1}), "[N, 4, 3, 2]");
  EXPECT_EQ(reshape({-1, 6}), "[4N, 6]");
  EXPECT_EQ(reshape({24, -1}), "[24, N]");
}

TEST(OperatorShapes, ReshapeKeepsAnExtentOfNothingWhereAskedTo) {
  const auto reshape = [](Ints shape, int64_t zeros) {
    return inferred("Reshape", {{"shape", std::move(shape)}, {"allowzero", zeros}},
                    {f32({0, 3, 4})});
  };
  EXPECT_EQ(reshape({3, 4, 0}, 1), "[3, 4, 0]");
  EXPECT_EQ(reshape({0, 12}, 0), "[0, 12]");
}

TEST(OperatorShapes, SlicesCountAsPythonsDo) {
  const auto slice = [](Ints starts, Ints ends, Ints steps) {
    return inferred("Slice",
                    {{"starts", std::move(starts)},
                     {"ends", std::move(ends)},
                     {"steps", std::move(steps)},
                     {"axes", Ints{1}}},
                    {f32({kBatch, 10})});
  };
  constexpr int64_t kLow = std::numeric_limits<int64_t>::min();
  constexpr int64_t kHigh = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(slice({2}, {5}, {1}), "[N, 3]");
  EXPECT_EQ(slice({-3}, {kHigh}, {1}), "[N, 3]");
  EXPECT_EQ(slice({kHigh}, {kLow}, {-1}), "[N, 10]");
  EXPECT_EQ(slice({9}, {0}, {-2}), "[N, 5]");
  EXPECT_EQ(slice({0}, {kHigh}, {kHigh}), "[N, 1]");
  EXPECT_EQ(slice({kHigh}, {kLow}, {kLow}), "[N, 1]");
  EXPECT_EQ(slice({5}, {5}, {1}), "[N, 0]");
}

TEST(OperatorShapes, RepetitionsGiveAParameterTheBatch) {
  EXPECT_EQ(inferred("Expand", {{"shape", Ints{-1, 1, 4}}}, {f32({1, 3, 1})}), "[N, 3, 4]");
  EXPECT_EQ(inferred("Expand", {{"shape", Ints{2, 1, 1}}}, {f32({kBatch, 1})}), "[2, N, 1]");
  EXPECT_EQ(inferred("Tile", {{"repeats", Ints{1, 3}}}, {f32({kBatch, 2})}), "[N, 6]");
  EXPECT_THAT(refusal("Tile", {{"repeats", Ints{2, 1}}}, {f32({kBatch, 2})}), HasSubstr("batch"));
  EXPECT_THAT(refusal("Expand", {{"shape", Ints{5, 4}}}, {f32({kBatch, 4})}), HasSubstr("batch"));
}

TEST(OperatorShapes, TheBatchIsNotMovedPickedOrReduced) {
  const ValueSpec x = f32({kBatch, 4});
  EXPECT_THAT(refusal("Slice", {{"starts", Ints{1}}, {"ends", Ints{2}}}, {x}), HasSubstr("batch"));
  EXPECT_THAT(refusal("Pad", {{"pads", Ints{1, 0, 0, 0}}}, {x}), HasSubstr("batch"));
  EXPECT_THAT(refusal("ReduceMean", {}, {x}), HasSubstr("micro-batches"));
  EXPECT_THAT(refusal("ArgMax", {}, {x}), HasSubstr("batch"));
  EXPECT_THAT(refusal("CumSum", {{"axis", int64_t{0}}}, {x}), HasSubstr("batch"));
  EXPECT_THAT(refusal("Trilu", {}, {x}), HasSubstr("batch"));
  EXPECT_THAT(refusal("GatherND", {}, {x, {DType::kInt64, {3, 1}}}), HasSubstr("batch"));
  EXPECT_THAT(refusal("ScatterND", {}, {x, {DType::kInt64, {3, 1}}, f32({3, 4})}),
              HasSubstr("batch"));
}

TEST(OperatorShapes, HostileMovesAreRefused) {
  const ValueSpec x = f32({kBatch, 4, 4});
  const auto pad = [&](const char* mode, Ints pads) {
    return refusal("Pad", {{"mode", mode}, {"pads", std::move(pads)}, {"axes", Ints{1}}}, {x});
  };
  EXPECT_THAT(pad("constant", {int64_t{1} << 62, int64_t{1} << 62}), HasSubstr("too much"));
  EXPECT_THAT(pad("constant", {-3, -3}), HasSubstr("nothing"));
  EXPECT_THAT(pad("edge", {int64_t{1} << 39, 0}), HasSubstr("at most"));
  EXPECT_THAT(pad("mirror", {1, 1}), HasSubstr("mirror"));
  EXPECT_THAT(pad("reflect", {1, 1, 1}), HasSubstr("two pads"));
  EXPECT_THAT(refusal("Slice", {{"starts", Ints{1}}, {"ends", Ints{2}}, {"steps", Ints{0}}}, {x}),
              HasSubstr("step 0"));
  EXPECT_THAT(refusal("Slice", {{"starts", Ints{1}}, {"ends", Ints{2}}, {"axes", Ints{5}}}, {x}),
              HasSubstr("axis 5"));
  EXPECT_THAT(refusal("Tile", {{"repeats", Ints{1, int64_t{1} << 62, 1}}}, {x}),
              HasSubstr("too large"));
  EXPECT_THAT(refusal("Squeeze", {{"axes", Ints{1}}}, {x}), HasSubstr("one index"));
  EXPECT_THAT(refusal("Unsqueeze", {{"axes", Ints{1, 1}}}, {x}), HasSubstr("twice"));
  EXPECT_THAT(refusal("TopK", {{"k", int64_t{5}}}, {x}), HasSubstr("k = 5"));
  EXPECT_THAT(refusal("DepthToSpace", {{"blocksize", int64_t{1} << 40}}, {f32({kBatch, 4, 2, 2})}),
              HasSubstr("blocksize"));
}

TEST(OperatorShapes, MatMulRepeatsStacksOfEither) {
  const auto product = [](Shape a, Shape b) { return inferred("MatMul", {}, {f32(a), f32(b)}); };
  EXPECT_EQ(product({kBatch, 7, 5}, {5, 2}), "[N, 7, 2]");
  EXPECT_EQ(product({7, 5}, {kBatch, 5, 2}), "[N, 7, 2]");
  EXPECT_EQ(product({kBatch, 1, 7, 5}, {4, 5, 2}), "[N, 4, 7, 2]");
  EXPECT_EQ(product({kBatch, 7, 5}, {5}), "[N, 7]");
  EXPECT_EQ(product({5}, {kBatch, 5, 2}), "[N, 2]");
  EXPECT_EQ(product({5}, {5}), "[]");
}

TEST(OperatorShapes, BothOperandsMayBeRepeated) {
  EXPECT_EQ(inferred("Mul", {}, {f32({kBatch, 1, 5}), f32({4, 1})}), "[N, 4, 5]");
  EXPECT_EQ(inferred("Sub", {}, {f32({}), f32({kBatch, 1})}), "[N, 1]");
  EXPECT_EQ(inferred("Div", {}, {f32({kBatch, 1}), f32({5})}), "[N, 5]");
  EXPECT_THAT(refusal("Mul", {}, {f32({kBatch, 3}), f32({5, 3})}), HasSubstr("[N, 3] and [5, 3]"));
  EXPECT_THAT(refusal("Mul", {}, {f32({kBatch, 1}), f32({1, kBatch})}), HasSubstr("one axis"));
  EXPECT_THAT(refusal("PRelu", {}, {f32({kBatch, 3}), f32({4, 1, 3})}), HasSubstr("slope"));
}

TEST(OperatorShapes, AddRepeatsAParameterOverItsPartner) {
  EXPECT_EQ(inferred("Add", {}, {f32({kBatch, 8}), f32({8})}), "[N, 8]");
  EXPECT_EQ(inferred("Add", {}, {f32({4, 1, 1}), f32({kBatch, 4, 5, 5})}), "[N, 4, 5, 5]");
  EXPECT_EQ(inferred("Add", {}, {f32({kBatch, 8}), f32({kBatch, 8})}), "[N, 8]");
}

TEST(OperatorShapes, MisfitsAreRefusedWithTheShapesTheyHave) {
  EXPECT_THAT(refusal("Gemm", {}, {f32({kBatch, 5}), f32({4, 3})}), HasSubstr("[N, 5]"));
  EXPECT_THAT(refusal("Gemm", {{"transA", int64_t{1}}}, {f32({kBatch, 5}), f32({5, 3})}),
              HasSubstr("transA"));
  EXPECT_THAT(refusal("Gemm", {}, {f32({kBatch, 5}), f32({5, 3}), f32({4})}), HasSubstr("[3]"));
  EXPECT_THAT(refusal("Gemm", {{"alpha", "much"}}, {f32({kBatch, 5}), f32({5, 3})}),
              HasSubstr("alpha"));
  EXPECT_THAT(refusal("MatMul", {}, {f32({kBatch, 2, 5}), f32({3, 5, 2})}), HasSubstr("[3, 5, 2]"));
  EXPECT_THAT(refusal("MatMul", {}, {f32({kBatch, 5}), f32({kBatch, 5})}), HasSubstr("[N, 5]"));
  EXPECT_THAT(refusal("Conv", {}, {f32({kBatch, 3, 8, 8}), f32({4, 2, 3, 3})}), HasSubstr("Conv"));
  EXPECT_THAT(refusal("Conv", {{"group", int64_t{2}}}, {f32({kBatch, 4, 8, 8}), f32({3, 2, 3, 3})}),
              HasSubstr("group 2"));
  EXPECT_THAT(refusal("Conv", {}, {f32({kBatch, 8}), f32({4, 8})}), HasSubstr("[N, 8]"));
  EXPECT_THAT(
      refusal("Conv", {{"kernel_shape", Ints{3, 3}}}, {f32({kBatch, 1, 8, 8}), f32({4, 1, 5, 5})}),
      HasSubstr("kernel_shape"));
  EXPECT_THAT(refusal("Conv", {}, {f32({kBatch, 1, 4, 8}), f32({4, 1, 5, 5})}),
              HasSubstr("does not fit"));
  EXPECT_THAT(refusal("Add", {}, {f32({kBatch, 8}), f32({7})}), HasSubstr("[7]"));
  EXPECT_THAT(refusal("Add", {}, {f32({kBatch, 8}), f32({2, 1})}), HasSubstr("[2, 1]"));
  EXPECT_THAT(refusal("Add", {}, {f32({kBatch, 8}), {DType::kInt64, {8}}}), HasSubstr("int64"));
  EXPECT_THAT(refusal("Reshape", {{"shape", Ints{0, 5}}}, {f32({kBatch, 4})}), HasSubstr("4 elem"));
  EXPECT_THAT(refusal("Reshape", {{"shape", Ints{4, 1}}}, {f32({kBatch, 4})}), HasSubstr("batch"));
  EXPECT_THAT(refusal("Reshape", {{"shape", Ints{-1, -1}}}, {f32({kBatch, 4})}),
              HasSubstr("only one"));
  EXPECT_THAT(refusal("Flatten", {{"axis", int64_t{4}}}, {f32({kBatch, 4, 4})}), HasSubstr("axis"));
  EXPECT_THAT(refusal("Softmax", {{"axis", int64_t{0}}}, {f32({kBatch, 4})}), HasSubstr("axis 0"));
  EXPECT_THAT(refusal("Dropout", {{"ratio", 1.0}}, {f32({kBatch, 4})}), HasSubstr("[0, 1)"));
  EXPECT_THAT(refusal("SoftmaxCrossEntropyLoss", {{"reduction", "most"}},
                      {f32({kBatch, 4}), {DType::kInt64, {kBatch}}}),
              HasSubstr("'most'"));
  EXPECT_THAT(refusal("SoftmaxCrossEntropyLoss", {}, {f32({kBatch, 4}), f32({kBatch})}),
              HasSubstr("int64"));
}

TEST(OperatorShapes, HostileWindowsAreRefused) {
  const auto pool = [](const Attributes& attributes) {
    return refusal("MaxPool", attributes, {f32({kBatch, 1, 8, 8})});
  };
  EXPECT_THAT(pool({}), HasSubstr("kernel_shape"));
  EXPECT_THAT(pool({{"kernel_shape", Ints{2}}}), HasSubstr("kernel_shape"));
  EXPECT_THAT(pool({{"kernel_shape", Ints{0, 2}}}), HasSubstr("kernel_shape"));
  EXPECT_THAT(pool({{"kernel_shape", Ints{2, 2}}, {"strides", Ints{0, 1}}}), HasSubstr("strides"));
  EXPECT_THAT(pool({{"kernel_shape", Ints{2, 2}}, {"pads", Ints{0, -1, 0, 0}}}), HasSubstr("pads"));
  EXPECT_THAT(pool({{"kernel_shape", Ints{2, 2}}, {"dilations", Ints{1, int64_t{1} << 62}}}),
              HasSubstr("dilations"));
  EXPECT_THAT(pool({{"kernel_shape", Ints{2, 2}}, {"pads", Ints{2, 0, 0, 0}}}),
              HasSubstr("only padding"));
  EXPECT_THAT(pool({{"kernel_shape", Ints{2, 2}}, {"auto_pad", "SOME"}}), HasSubstr("SOME"));
}

}  // namespace
}  // namespace kerf::ops
