// Ways to divide, by example: which boxes of its operands some iterations of an operator touch, and
// what is a partial sum.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/operator.h"

namespace kerf::ops {
namespace {

using testing::HasSubstr;
using Ints = std::vector<int64_t>;

constexpr int64_t kLargest = 6;

ValueSpec float_values(Shape shape) { return {DType::kFloat32, shape}; }

std::shared_ptr<const BoundOperator> bound_to(const std::string& op, const Attributes& attributes,
                                              const std::vector<ValueSpec>& inputs) {
  NodeFacts facts{attributes, {}, 1};
  for (const ValueSpec& spec : inputs)
    facts.inputs.push_back({spec, Role::kActivation, is_floating(spec.dtype)});
  return bind_operator(find_operator(op), facts);
}

Box iterations(const BoundOperator& op, size_t axis, const std::string& set) {
  Box box = Box::whole(static_cast<int>(op.space().axes.size()));
  box.axes.at(axis) = parse_index_set(set, "test");
  return box;
}

std::string told(const Box& box, const std::vector<IndexSet>& slices) {
  return to_string(box) + (slices.empty() ? "" : " partial");
}

// "[all, 0-3]; [0-3] -> [all, all] partial": inputs and output of the call that has this set of an
// iteration axis. An input is marked where its gradient is partial.
std::string told(const BoundOperator& op, size_t axis, const std::string& set) {
  const Box box = iterations(op, axis, set);
  const std::string why = check_iterations(op.space(), box, kLargest);
  if (!why.empty()) return "refused: " + why;
  std::vector<std::string> inputs;
  for (size_t i = 0; i < op.inputs().size(); ++i)
    inputs.push_back(told(input_box(op, static_cast<int>(i), box, kLargest),
                          partial_slices(op.space(), op.space().inputs[i], box)));
  return format("{} -> {}", fmt::join(inputs, "; "),
                told(output_box(op, 0, box, kLargest),
                     partial_slices(op.space(), op.space().outputs[0], box)));
}

TEST(Iterations, OfGemmAreRowsColumnsAndWhatIsSummed) {
  const auto gemm =
      bound_to("Gemm", {{"transB", int64_t{1}}},
               {float_values({kBatch, 8}), float_values({10, 8}), float_values({10})});
  EXPECT_EQ(told(*gemm, 0, "0-2,5"),
            "[0-2,5, all]; [all, all] partial; [all] partial -> "
            "[0-2,5, all]");
  EXPECT_EQ(told(*gemm, 1, "0-3,7"), "[all, all] partial; [0-3,7, all]; [0-3,7] -> [all, 0-3,7]");
  EXPECT_EQ(told(*gemm, 2, "0-3"), "[all, 0-3]; [all, 0-3]; [all] -> [all, all] partial");
  EXPECT_EQ(told(*gemm, 2, "4-7"), "[all, 4-7]; [all, 4-7]; [none] -> [all, all] partial");
}

TEST(Iterations, OfConvAreFiltersChannelsAndSpace) {
  const auto conv =
      bound_to("Conv", {{"pads", Ints{1, 1, 1, 1}}},
               {float_values({kBatch, 3, 8, 8}), float_values({6, 3, 3, 3}), float_values({6})});
  EXPECT_EQ(told(*conv, 1, "1,4"),
            "[all, all, all, all] partial; [1,4, all, all, all]; [1,4] -> "
            "[all, 1,4, all, all]");
  EXPECT_EQ(told(*conv, 2, "1-2"),
            "[all, 1-2, all, all]; [all, 1-2, all, all]; [none] -> "
            "[all, all, all, all] partial");
  EXPECT_EQ(told(*conv, 3, "0-3"),
            "[all, all, 0-4, all]; [all, all, all, all] partial; "
            "[all] partial -> [all, all, 0-3, all]");
  EXPECT_THAT(told(*conv, 3, "0,2"), HasSubstr("a range"));
}

TEST(Iterations, OfAGroupedConvKeepGroupsApart) {
  const auto conv = bound_to("Conv", {{"group", int64_t{3}}},
                             {float_values({kBatch, 6, 8, 8}), float_values({9, 2, 3, 3})});
  EXPECT_EQ(told(*conv, 1, "0,2"),
            "[all, 0-1,4-5, all, all]; [0-2,6-8, all, all, all] -> [all, 0-2,6-8, all, all]");
  EXPECT_EQ(told(*conv, 2, "0"),
            "[all, all, all, all] partial; [0,3,6, all, all, all] -> "
            "[all, 0,3,6, all, all]");
}

// As many rows as a number says are no samples, which a step has micro-batches of.
TEST(Iterations, OfImagesHaveSamplesWhereTheBatchIs) {
  const Attributes kernel{{"kernel_shape", Ints{1, 1}}};
  for (const char* op : {"Conv", "ConvTranspose", "MaxPool"})
    for (const int64_t rows : {kBatch, int64_t{2}}) {
      std::vector<ValueSpec> inputs{float_values({rows, 3, 4, 4})};
      if (op != std::string("MaxPool")) inputs.push_back(float_values({3, 3, 1, 1}));
      EXPECT_EQ(bound_to(op, kernel, inputs)->space().axes[0].kind,
                rows == kBatch ? AxisKind::kSample : AxisKind::kSpace)
          << op;
    }
}

TEST(Iterations, OfPoolsAreRangesOfSpaceWhoseWindowsOverlap) {
  const auto pool = bound_to("MaxPool", {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}},
                             {float_values({kBatch, 3, 9, 9})});
  EXPECT_EQ(told(*pool, 2, "0-1"), "[all, all, 0-4, all] -> [all, all, 0-1, all]");
  EXPECT_EQ(told(*pool, 2, "2-3"), "[all, all, 4-8, all] -> [all, all, 2-3, all]");
  EXPECT_EQ(told(*pool, 1, "0,2"), "[all, 0,2, all, all] -> [all, 0,2, all, all]");
}

TEST(Iterations, OfFlattenAreThoseOfTheImage) {
  const auto flatten = bound_to("Flatten", {}, {float_values({kBatch, 4, 2, 3})});
  EXPECT_EQ(told(*flatten, 1, "1"), "[all, 1, all, all] -> [all, 6-11]");
  EXPECT_EQ(told(*flatten, 2, "0"), "[all, all, 0, all] -> [all, 0-2,6-8,12-14,18-20]");
}

TEST(Iterations, OfAddLeaveWhatIsRepeatedPartial) {
  EXPECT_EQ(told(*bound_to("Add", {}, {float_values({kBatch, 8}), float_values({8})}), 1, "2-3"),
            "[all, 2-3]; [2-3] -> [all, 2-3]");
  EXPECT_EQ(told(*bound_to("Add", {}, {float_values({kBatch, 8}), float_values({1})}), 1, "2-3"),
            "[all, 2-3]; [all] partial -> [all, 2-3]");
  EXPECT_EQ(told(*bound_to("Add", {}, {float_values({kBatch, 8}), float_values({8})}), 0, "0-1"),
            "[0-1, all]; [all] partial -> [0-1, all]");
}

TEST(Iterations, OfSoftmaxStayWholeAlongItsAxis) {
  const auto softmax = bound_to("Softmax", {}, {float_values({kBatch, 4, 6})});
  EXPECT_THAT(told(*softmax, 2, "0-2"), HasSubstr("Softmax sums along axis 2"));
  EXPECT_EQ(told(*softmax, 1, "0-2"), "[all, 0-2, all] -> [all, 0-2, all]");
}

TEST(Iterations, OfTheLossAreRowsWhoseSumIsPartial) {
  const auto loss = bound_to("SoftmaxCrossEntropyLoss", {},
                             {float_values({kBatch, 10}), {DType::kInt64, {kBatch}}});
  EXPECT_EQ(told(*loss, 0, "0-1"), "[0-1, all]; [0-1] -> [] partial");
  EXPECT_THAT(told(*loss, 1, "0-4"), HasSubstr("denominator"));
}

TEST(Iterations, OfMatMulAreStacksRowsColumnsAndWhatIsSummed) {
  const auto shared = bound_to("MatMul", {}, {float_values({kBatch, 5, 3}), float_values({3, 4})});
  EXPECT_EQ(told(*shared, 1, "0-1"), "[all, 0-1, all]; [all, all] partial -> [all, 0-1, all]");
  EXPECT_EQ(told(*shared, 2, "0-1"), "[all, all, all] partial; [all, 0-1] -> [all, all, 0-1]");
  EXPECT_EQ(told(*shared, 3, "0"), "[all, all, 0]; [0, all] -> [all, all, all] partial");
  const auto heads =
      bound_to("MatMul", {}, {float_values({kBatch, 2, 5, 3}), float_values({kBatch, 2, 3, 5})});
  EXPECT_EQ(told(*heads, 1, "1"), "[all, 1, all, all]; [all, 1, all, all] -> [all, 1, all, all]");
}

}  // namespace
}  // namespace kerf::ops
