// Shapes are exact, refuse what no memory can hold, and know their batch only when it is bound.
#include "ops/tensor.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <vector>

namespace kerf::ops {
namespace {

ErrorCode code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::kInternal;
}

TEST(Shape, ShowsItsBatchAsN) {
  EXPECT_EQ(to_string(Shape({kBatch, 6, 28, 28})), "[N, 6, 28, 28]");
  EXPECT_EQ(to_string(Shape({10, 3})), "[10, 3]");
  EXPECT_EQ(to_string(Shape()), "[]");
  EXPECT_EQ(to_string(Shape({12 * kBatch, 64})), "[12N, 64]");
  EXPECT_EQ(to_string(Shape({4, kBatch, 5})), "[4, N, 5]");
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ(Shape({2, 3, 4}).elements(), 24);
  EXPECT_EQ(Shape({2, 3, 4}).elements_per_sample(), 24);
  EXPECT_EQ(Shape({kBatch, 3, 4}).elements_per_sample(), 12);
  EXPECT_EQ(Shape({kBatch}).elements_per_sample(), 1);
  EXPECT_EQ(Shape({5, 0}).elements(), 0);
}

TEST(Shape, HasNoElementsBeforeItsBatchIsBound) {
  const Shape shape{kBatch, 3};
  EXPECT_TRUE(shape.batched());
  EXPECT_EQ(code_of([&] { shape.elements(); }), ErrorCode::kInternal);
  EXPECT_EQ(shape.with_batch(7), Shape({7, 3}));
  EXPECT_EQ(shape.with_batch(0).elements(), 0);
  EXPECT_EQ(Shape({4, 3}).with_batch(7), Shape({4, 3}));
  EXPECT_EQ(Shape({3, 12 * kBatch}).with_batch(7), Shape({3, 84}));
  EXPECT_EQ(Shape({3, 12 * kBatch}).batch_axis(), 1);
  EXPECT_EQ(Shape({4, 3}).batch_axis(), -1);
  EXPECT_EQ(code_of([&] { shape.with_batch(-2); }), ErrorCode::kInternal);
}

TEST(Shape, RefusesWhatIsNoShape) {
  const std::vector<int64_t> too_many(Shape::kMaxRank + 1, 1);
  EXPECT_EQ(code_of([&] { Shape{std::span<const int64_t>(too_many)}; }), ErrorCode::kUsage);
  EXPECT_EQ(code_of([] { Shape({kBatch, 3, kBatch}); }), ErrorCode::kUsage);
}

TEST(Shape, RefusesToOverflow) {
  const int64_t huge = int64_t{1} << 32;
  EXPECT_EQ(code_of([&] { Shape({huge, huge}).elements(); }), ErrorCode::kUsage);
  EXPECT_EQ(code_of([&] { Shape({kBatch, huge, huge}).elements_per_sample(); }), ErrorCode::kUsage);
  EXPECT_EQ(code_of([&] { Shape({std::numeric_limits<int64_t>::max()}).elements(); }),
            ErrorCode::kUsage);
  EXPECT_EQ(Shape({huge, huge, 0}).elements(), 0);
}

TEST(DType, IsReadAndWritten) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                            DType::kInt32, DType::kInt64, DType::kBool, DType::kInt8, DType::kInt16,
                            DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64})
    EXPECT_EQ(parse_dtype(std::string(to_string(dtype))), dtype);
  EXPECT_EQ(code_of([] { parse_dtype("float8"); }), ErrorCode::kUsage);
}

TEST(DType, HasASizeAndSaysWhetherGradientsExist) {
  EXPECT_EQ(size_of(DType::kFloat64), 8U);
  EXPECT_EQ(size_of(DType::kBFloat16), 2U);
  EXPECT_EQ(size_of(DType::kBool), 1U);
  EXPECT_EQ(size_of(DType::kInt16), 2U);
  EXPECT_EQ(size_of(DType::kUint8), 1U);
  EXPECT_TRUE(is_floating(DType::kFloat16));
  EXPECT_FALSE(is_floating(DType::kInt32));
}

TEST(ValueSpec, KnowsTheBytesOfAMicroBatch) {
  EXPECT_EQ((ValueSpec{DType::kFloat32, {kBatch, 10}}.bytes(3)), 120U);
  EXPECT_EQ((ValueSpec{DType::kInt64, {kBatch}}.bytes(3)), 24U);
  EXPECT_EQ((ValueSpec{DType::kFloat32, {7, 10}}.bytes(3)), 280U);
}

TEST(Tensor, AccountsForItsMemory) {
  const auto device = runtime::make_cpu_device();
  EXPECT_FALSE(Tensor());
  {
    const Tensor tensor(*device, DType::kFloat32, {4, 5});
    ASSERT_TRUE(tensor);
    EXPECT_EQ(tensor.view().elements(), 20);
    EXPECT_EQ(tensor.view().bytes(), 80U);
    EXPECT_GE(device->memory().current, 80U);
    tensor.view().f32()[19] = 1;
  }
  EXPECT_EQ(device->memory().current, 0U);
}

TEST(Tensor, MayBeEmpty) {
  const auto device = runtime::make_cpu_device();
  const Tensor tensor(*device, DType::kInt64, {0, 5});
  EXPECT_TRUE(tensor);
  EXPECT_EQ(tensor.view().bytes(), 0U);
}

}  // namespace
}  // namespace kerf::ops
