// The builder: names by operator and number, parameters as PyTorch names and begins them.
#include "partitioner/builder.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/partitioner/sample_models.h"

namespace kerf::partitioner {
namespace {

using testing::complaint;
using ::testing::HasSubstr;

TEST(Builder, TheExampleInItsHeaderWorks) {
  Builder b("tiny");
  const ValueId x = b.input("image", {ops::kBatch, 1, 28, 28});
  const ValueId h = b.relu(b.gemm(b.flatten(x), 128));
  b.loss(b.gemm(b.add(h, b.gemm(h, 128)), 10));
  const Model model = b.build();
  for (const char* name : {"flatten1", "gemm1", "relu1", "gemm2", "add1", "gemm3", "loss"})
    EXPECT_GE(model.find_node(name), 0) << name;
  EXPECT_EQ(model.loss(), model.find_node("loss"));
  EXPECT_EQ(model.node(model.loss()).inputs[1], model.find_value("label"));
}

TEST(Builder, GivenNamesAreNeverGivenAgain) {
  Builder b("m");
  const ValueId x = b.input("x", {ops::kBatch, 4});
  const ValueId y = b.relu(b.relu(x, "relu1"));
  EXPECT_EQ(b.relu(y), 3);
}

TEST(Builder, ParametersAreUniformByFanIn) {
  Builder b("m");
  const ValueId x = b.input("x", {ops::kBatch, 3, 9, 9});
  b.loss(b.gemm(b.flatten(b.conv(x, 5, 3, 1, 1, "c")), 7, "f"));
  const Model model = b.build();
  const auto expect = [&](const char* name, const ops::Shape& shape, double fan_in) {
    const ValueId id = model.find_value(name);
    ASSERT_GE(id, 0) << name;
    EXPECT_EQ(model.value(id).spec.shape, shape) << name;
    EXPECT_EQ(model.value(id).initializer.kind, ops::Initializer::Kind::kUniform) << name;
    EXPECT_DOUBLE_EQ(model.value(id).initializer.scale, 1 / std::sqrt(fan_in)) << name;
  };
  expect("c.weight", {5, 3, 3, 3}, 27);
  expect("c.bias", {5}, 27);
  expect("f.weight", {7, 405}, 405);
  expect("f.bias", {7}, 405);
  EXPECT_EQ(model.value(model.find_value("c.weight")).parameter, 0u);
  EXPECT_EQ(model.value(model.find_value("f.bias")).parameter, 3u);
}

TEST(Builder, EveryLayerHasItsShape) {
  Builder b("m");
  const ValueId x = b.input("x", {ops::kBatch, 3, 8, 8});
  const ValueId pooled = b.average_pool(b.max_pool(x, 2, 2), 2, 2);
  const ValueId folded = b.reshape(pooled, {0, 6, 2});
  const ValueId soft = b.softmax(b.dropout(b.flatten(folded), 0.5));
  b.loss(b.gemm(soft, 2));
  const Model model = b.build();
  const auto shape = [&](ValueId id) { return model.value(id).spec.shape; };
  EXPECT_EQ(shape(pooled), (ops::Shape{ops::kBatch, 3, 2, 2}));
  EXPECT_EQ(shape(folded), (ops::Shape{ops::kBatch, 6, 2}));
  EXPECT_EQ(shape(soft), (ops::Shape{ops::kBatch, 12}));
}

TEST(Builder, MistakesNameTheNode) {
  Builder b("m");
  const ValueId x = b.input("x", {ops::kBatch, 3, 8, 8});
  EXPECT_THAT(complaint([&] { b.gemm(x, 10, "fc"); }),
              HasSubstr("m: node fc: Gemm: input has 4 axes, needs 2"));
  EXPECT_THAT(complaint([&] { b.gemm(b.flatten(x), 0, "none"); }), HasSubstr("m: node none"));
  EXPECT_THAT(complaint([&] { b.conv(b.flatten(x), 4, 3, 1, 0, "c"); }), HasSubstr("m: node c"));
  EXPECT_THAT(complaint([&] { b.conv(x, 4, 11, 1, 0, "big"); }), HasSubstr("m: node big"));
  EXPECT_THAT(complaint([&] { b.gemm(77, 4, "where"); }), HasSubstr("no value number 77"));
}

}  // namespace
}  // namespace kerf::partitioner
