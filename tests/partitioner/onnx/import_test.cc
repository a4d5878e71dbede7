// What becomes of ONNX files, and what is refused.
#include "partitioner/onnx/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "partitioner/onnx/evaluate.h"
#include "partitioner/onnx/read.h"
#include "partitioner/onnx/weight_file.h"
#include "tests/partitioner/onnx/made_graphs.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::partitioner::onnx {
namespace {

using testing::HasSubstr;
using tests::error_of;
using tests::TemporaryFolder;

std::filesystem::path model_file(const std::string& name) {
  return std::filesystem::path(KERF_ONNX_MODELS) / name;
}

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Role role_of(const Model& model, const std::string& value) {
  return model.value(model.find_value(value)).role;
}

TEST(Import, AFixedBatchIsFree) {
  const Imported imported = import_file(model_file("convolutions.onnx"));
  ASSERT_EQ(imported.model.results().size(), 1U);
  EXPECT_EQ(imported.model.results()[0].name, "probabilities");
  EXPECT_EQ(ops::to_string(imported.model.value(imported.model.results()[0].value).spec.shape),
            "[N, 10]");
  Evaluator evaluator;
  const auto one = evaluate(imported.model, {{"image", ramp({1, 1, 8, 8})}}, evaluator);
  const auto two = evaluate(imported.model, {{"image", ramp({2, 1, 8, 8})}}, evaluator);
  const auto numbers = [](const ops::TensorLiteral& literal) {
    std::vector<float> all(literal.bytes.size() / sizeof(float));
    std::memcpy(all.data(), literal.bytes.data(), literal.bytes.size());
    return all;
  };
  const std::vector<float> both = numbers(two[0]);
  for (size_t i = 0; i < 10; ++i) EXPECT_NEAR(numbers(one[0])[i], both[i], 1e-6F);
}

TEST(Import, WeightsAndBiasesAreTrainedAndRunningStatisticsAreNot) {
  const Model model = import_file(model_file("convolutions.onnx")).model;
  for (const char* name : {"conv.weight", "conv.bias", "bn.weight", "bn.bias", "fc.weight"})
    EXPECT_EQ(role_of(model, name), Role::kParameter) << name;
  EXPECT_EQ(role_of(model, "bn.mean"), Role::kFrozen);
  const Model frozen =
      import_file(model_file("convolutions.onnx"), {.freeze = {"conv.*", "bn.*"}}).model;
  EXPECT_EQ(role_of(frozen, "conv.weight"), Role::kFrozen);
  EXPECT_EQ(role_of(frozen, "fc.weight"), Role::kParameter);
  const Model normed = import_file(model_file("convolutions.onnx"),
                                   {.loss = kCrossEntropy, .train_batch_norms = true})
                           .model;
  EXPECT_EQ(role_of(normed, "bn.mean"), Role::kState);
}

TEST(Import, ShapeArithmeticIsFolded) {
  const Imported imported = import_file(model_file("shapes.onnx"));
  EXPECT_EQ(imported.model.nodes(), 4);  // MatMul, Add, Reshape, MatMul
  EXPECT_THAT(imported.notes, testing::Contains(HasSubstr("head.weight is kept with its axes")));
  EXPECT_EQ(role_of(imported.model, "head.weight"), Role::kParameter);
}

TEST(Import, ExternalDataAreTheSameModel) {
  Evaluator evaluator;
  const std::map<std::string, ops::TensorLiteral> inputs{{"x", ramp({3, 6, 16})}};
  const auto inside = evaluate(import_file(model_file("shapes.onnx")).model, inputs, evaluator);
  const auto beside = evaluate(import_file(model_file("external.onnx")).model, inputs, evaluator);
  EXPECT_EQ(inside[0], beside[0]);
}

TEST(Import, ALossTakesTheSoftmaxAndAHeadIsReplaced) {
  const Imported imported =
      import_file(model_file("convolutions.onnx"), {.loss = kCrossEntropy, .head = 3});
  const Model& model = imported.model;
  model.check();
  ASSERT_GE(model.loss(), 0);
  EXPECT_EQ(model.find_node("softmax"), -1);
  EXPECT_EQ(ops::to_string(model.value(model.find_value("fc.weight")).spec.shape), "[3, 128]");
  EXPECT_EQ(model.value(model.find_value("fc.weight")).contents, nullptr);
  EXPECT_NE(model.value(model.find_value("conv.weight")).contents, nullptr);
  EXPECT_THAT(imported.notes, testing::Contains("Softmax softmax is joined with the loss"));
}

TEST(Import, RefusesAnAxisThatOnlyHasAName) {
  Graph graph = read_graph(model_file("shapes.onnx"));
  graph.inputs[0].shape[1] = {-1, "T"};
  const auto error = error_of([&] { import_graph(graph); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("input x: its axis 1 is as long as T says; say it"));
  EXPECT_EQ(import_graph(graph, {.dims = {{"T", 6}}}).model.nodes(), 4);
}

TEST(Import, NamesTheNodeItsOperatorAndItsOpset) {
  Graph graph = read_graph(model_file("convolutions.onnx"));
  graph.nodes[2].op = "Mystery";
  const auto error = error_of([&] { import_graph(graph); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("convolutions.onnx: node relu (Mystery, opset 9)"));
}

TEST(Read, RefusesCyclesAndValuesThatNothingGives) {
  Graph cycle = read_graph(model_file("convolutions.onnx"));
  cycle.nodes[0].inputs[0] = "r";
  const auto closed = error_of([&] { put_in_order(cycle); });
  ASSERT_TRUE(closed);
  EXPECT_THAT(closed->what(), HasSubstr("its nodes form a cycle"));
  Graph dangling = read_graph(model_file("convolutions.onnx"));
  dangling.nodes[0].inputs[0] = "nowhere";
  const auto missing = error_of([&] { put_in_order(dangling); });
  ASSERT_TRUE(missing);
  EXPECT_THAT(missing->what(), HasSubstr("nothing gives its input nowhere"));
}

TEST(Read, RefusesWhatIsCutShortOrClaimsMoreThanItHas) {
  const TemporaryFolder folder;
  const std::string whole = contents(model_file("convolutions.onnx"));
  write(folder / "short.onnx", whole.substr(0, whole.size() / 2));
  const auto cut = error_of([&] { read_graph(folder / "short.onnx"); });
  ASSERT_TRUE(cut);
  EXPECT_THAT(cut->what(), HasSubstr("short.onnx: byte"));
  // Field 7, the graph, of 2^31 - 1 bytes.
  std::string bytes("\x3a\xff\xff\xff\xff\x07", 6);
  bytes.resize(1024, 'x');
  write(folder / "claims.onnx", bytes);
  const auto claims = error_of([&] { read_graph(folder / "claims.onnx"); });
  ASSERT_TRUE(claims);
  EXPECT_THAT(claims->what(), HasSubstr("a field of 2147483647 bytes, where 1018 are left"));
}

TEST(Read, ExternalDataStayInTheModelsFolder) {
  const TemporaryFolder folder;
  const std::string model = contents(model_file("external.onnx"));
  write(folder / "model.onnx", model);
  const auto absent = error_of([&] { read_graph(folder / "model.onnx"); });
  ASSERT_TRUE(absent);
  EXPECT_THAT(absent->what(), HasSubstr("its external data are not there: external.bin"));
  std::filesystem::create_symlink(model_file("external.bin"), folder / "external.bin");
  const auto outside = error_of([&] { read_graph(folder / "model.onnx"); });
  ASSERT_TRUE(outside);
  EXPECT_THAT(outside->what(), HasSubstr("lie outside the model's folder"));
  std::filesystem::remove(folder / "external.bin");
  write(folder / "external.bin", "too little");
  const auto little = error_of([&] { read_graph(folder / "model.onnx"); });
  ASSERT_TRUE(little);
  EXPECT_THAT(little->what(), HasSubstr("which has 10"));
}

// ---- fusions: the nodes of each are gone, and the numbers are the same

void expect_fused(const Graph& graph, const ops::Shape& x, const std::string& op) {
  const Model whole = import_graph(graph).model;
  ASSERT_EQ(whole.nodes(), 1);
  EXPECT_EQ(whole.node(0).op, op);
  Evaluator evaluator;
  const std::map<std::string, ops::TensorLiteral> inputs{{"x", ramp(x)}};
  const auto pieces = evaluate(import_graph(graph, {.fuse = false}).model, inputs, evaluator);
  const auto one = evaluate(whole, inputs, evaluator);
  ASSERT_EQ(pieces[0].shape, one[0].shape);
  for (size_t at = 0; at < one[0].bytes.size(); at += sizeof(float)) {
    float a = 0;
    float b = 0;
    std::memcpy(&a, one[0].bytes.data() + at, sizeof(a));
    std::memcpy(&b, pieces[0].bytes.data() + at, sizeof(b));
    EXPECT_NEAR(a, b, 1e-5F);
  }
}

TEST(Fusions, ScaleAndShiftOfABatchNormalisation) {
  expect_fused(
      graph_of(
          {2, 3, 3},
          {node_of("BatchNormalization", {"x", "g", "b", "m", "v"}, "n"),
           node_of("Unsqueeze", {"s", "axes"}, "s3"), node_of("Unsqueeze", {"t", "axes"}, "t3"),
           node_of("Mul", {"n", "s3"}, "scaled"), node_of("Add", {"scaled", "t3"}, "y")},
          {stored("g", {2}, {1.5F, 0.5F}),
           stored("b", {2}, {0.25F, -1}),
           stored("m", {2}, {0.1F, 0.2F}),
           stored("v", {2}, {0.5F, 2}),
           stored("s", {2}, {2, -3}),
           stored("t", {2}, {1, 0.5F}),
           {"axes",
            {ops::DType::kInt64, {2}},
            ops::DType::kInt64,
            contents_of(std::string("\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 16), ops::DType::kInt64)}}),
      {2, 2, 3, 3}, "BatchNormalization");
}

TEST(Fusions, LayerNormalization) {
  const ops::Attributes last{{"axes", std::vector<int64_t>{-1}}};
  expect_fused(
      graph_of(
          {3, 4},
          {node_of("ReduceMean", {"x"}, "mean", last), node_of("Sub", {"x", "mean"}, "d"),
           node_of("Pow", {"d", "two"}, "square"), node_of("ReduceMean", {"square"}, "v", last),
           node_of("Add", {"v", "epsilon"}, "sum"), node_of("Sqrt", {"sum"}, "root"),
           node_of("Div", {"d", "root"}, "ratio"), node_of("Mul", {"ratio", "g"}, "scaled"),
           node_of("Add", {"scaled", "b"}, "y")},
          {stored("two", {}, {2}), stored("epsilon", {}, {1e-5F}), stored("g", {4}, {1, 2, 3, 4}),
           stored("b", {4}, {0.5F, 0, -1, 2})}),
      {2, 3, 4}, "LayerNormalization");
}

TEST(Fusions, Gelu) {
  expect_fused(
      graph_of(
          {6},
          {node_of("Div", {"x", "root"}, "r"), node_of("Erf", {"r"}, "e"),
           node_of("Add", {"e", "one"}, "bell"), node_of("Mul", {"x", "bell"}, "twice"),
           node_of("Mul", {"twice", "half"}, "y")},
          {stored("root", {}, {1.41421356F}), stored("one", {}, {1}), stored("half", {}, {0.5F})}),
      {3, 6}, "Gelu");
}

TEST(Fusions, WhatSomebodyElseReadsStays) {
  Graph graph = graph_of(
      {6},
      {node_of("Div", {"x", "root"}, "r"), node_of("Erf", {"r"}, "e"),
       node_of("Add", {"e", "one"}, "bell"), node_of("Mul", {"x", "bell"}, "twice"),
       node_of("Mul", {"twice", "half"}, "y")},
      {stored("root", {}, {1.41421356F}), stored("one", {}, {1}), stored("half", {}, {0.5F})});
  graph.outputs.emplace_back("bell");
  EXPECT_EQ(import_graph(graph).model.nodes(), 5);
}

TEST(Patterns, StarsStandForAnything) {
  EXPECT_TRUE(fits_pattern("layer1.0.weight", "layer1.*"));
  EXPECT_TRUE(fits_pattern("layer1.0.weight", "*weight"));
  EXPECT_TRUE(fits_pattern("fc", "f?"));
  EXPECT_FALSE(fits_pattern("layer10", "layer1"));
  EXPECT_FALSE(fits_pattern("layer2.weight", "layer1.*"));
  EXPECT_TRUE(fits_pattern("aXbXc", "a*b*c"));
}

}  // namespace
}  // namespace kerf::partitioner::onnx
