// What exporters wrote for one operator is put together, and nothing else is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/partitioner/onnx/made_graphs.h"

namespace kerf::partitioner::onnx {

namespace {

void expect_fused(const Graph& graph, const std::string& op) {
  const Model whole = import_graph(graph).model;
  ASSERT_EQ(whole.nodes(), 1);
  EXPECT_EQ(whole.node(0).op, op);
  expect_same_answers(graph);
}

TEST(Fusions, ScaleAndShiftOfABatchNormalisation) {
  expect_fused(
      graph_of(
          {2, 3, 3},
          {node_of("BatchNormalization", {"x", "g", "b", "m", "v"}, "n"),
           node_of("Unsqueeze", {"s", "axes"}, "s3"), node_of("Unsqueeze", {"t", "axes"}, "t3"),
           node_of("Mul", {"n", "s3"}, "scaled"), node_of("Add", {"scaled", "t3"}, "y")},
          {stored("g", {2}, {1.5F, 0.5F}), stored("b", {2}, {0.25F, -1}),
           stored("m", {2}, {0.1F, 0.2F}), stored("v", {2}, {0.5F, 2}), stored("s", {2}, {2, -3}),
           stored("t", {2}, {1, 0.5F}), stored_integers("axes", {1, 2})}),
      "BatchNormalization");
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
      "LayerNormalization");
}

TEST(Fusions, Gelu) {
  expect_fused(
      graph_of(
          {6},
          {node_of("Div", {"x", "root"}, "r"), node_of("Erf", {"r"}, "e"),
           node_of("Add", {"e", "one"}, "bell"), node_of("Mul", {"x", "bell"}, "twice"),
           node_of("Mul", {"twice", "half"}, "y")},
          {stored("root", {}, {1.41421356F}), stored("one", {}, {1}), stored("half", {}, {0.5F})}),
      "Gelu");
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

// ---- layer normalisation: near misses

Graph layer_normalization_graph(const Ints& mean_axes, const Ints& square_axes,
                                const std::vector<float>& power) {
  const auto over = [](const Ints& axes) { return ops::Attributes{{"axes", axes}}; };
  return graph_of(
      {4, 4},
      {node_of("MatMul", {"x", "w"}, "h"), node_of("ReduceMean", {"h"}, "mean", over(mean_axes)),
       node_of("Sub", {"h", "mean"}, "d"), node_of("Pow", {"d", "power"}, "square"),
       node_of("ReduceMean", {"square"}, "v", over(square_axes)),
       node_of("Add", {"v", "epsilon"}, "sum"), node_of("Sqrt", {"sum"}, "root"),
       node_of("Div", {"d", "root"}, "ratio"), node_of("Mul", {"ratio", "g"}, "scaled"),
       node_of("Add", {"scaled", "b"}, "y")},
      {stored_random("w", {4, 4}), stored("power", {}, power), stored("epsilon", {}, {1e-5F}),
       stored("g", {4}, {1, 2, 3, 4}), stored("b", {4}, {0.5F, 0, -1, 2})});
}

TEST(Fusions, LayerNormalizationIsOfTheLastAxesAndOfSquares) {
  EXPECT_EQ(import_graph(layer_normalization_graph({-1}, {-1}, {2})).model.nodes(), 2);
  for (const auto& [mean, square, power] :
       {std::tuple{Ints{1}, Ints{1}, 2.0F}, {Ints{-1}, Ints{1}, 2.0F}, {Ints{-1}, Ints{-1}, 4.0F}})
    EXPECT_EQ(import_graph(layer_normalization_graph(mean, square, {power})).model.nodes(), 10);
  const Graph graph = layer_normalization_graph({-1}, {-1}, {2});
  const Model model = import_graph(graph).model;
  for (const char* trained : {"g", "b"})
    EXPECT_EQ(model.value(model.find_value(trained)).role, Role::kParameter) << trained;
  expect_same_training(graph);
}

// ---- linear layers

Graph linear_graph(const Ints& sample, const ops::Shape& bias) {
  return graph_of(sample,
                  {node_of("MatMul", {"x", "w"}, "product"), node_of("Add", {"b", "product"}, "y")},
                  {stored_random("w", {6, 5}), stored_random("b", bias)});
}

TEST(Fusions, LinearLayers) {
  for (const Ints& sample : {Ints{6}, Ints{4, 6}, Ints{2, 4, 6}}) {
    const Graph graph = linear_graph(sample, {5});
    const Imported imported = import_graph(graph);
    EXPECT_EQ(count_of(imported.model, "Gemm"), 1);
    EXPECT_EQ(count_of(imported.model, "MatMul"), 0);
    EXPECT_EQ(imported.model.nodes(), sample.size() == 1 ? 1 : 3);
    EXPECT_THAT(imported.notes, testing::Contains("1 linear layer put together"));
    expect_same_answers(graph);
    if (sample.size() < 3) expect_same_training(graph);
  }
}

TEST(Fusions, ALinearLayerHasAVectorForABiasAndAWeightOfItsOwn) {
  EXPECT_EQ(count_of(import_graph(linear_graph({4, 6}, {4, 5})).model, "MatMul"), 1);
  EXPECT_EQ(count_of(import_graph(linear_graph({4, 6}, {1})).model, "MatMul"), 1);
  Graph given = linear_graph({4, 6}, {5});
  given.outputs.emplace_back("product");
  EXPECT_EQ(count_of(import_graph(given).model, "MatMul"), 1);
  const Graph computed =
      graph_of({4, 6},
               {node_of("Transpose", {"x"}, "w", {{"perm", Ints{0, 2, 1}}}),
                node_of("MatMul", {"x", "w"}, "product"), node_of("Add", {"product", "b"}, "y")},
               {stored_random("b", {4})});
  EXPECT_EQ(count_of(import_graph(computed).model, "MatMul"), 1);
  const Graph twice =
      graph_of({6},
               {node_of("MatMul", {"x", "w"}, "product"), node_of("Add", {"product", "b"}, "sum"),
                node_of("Mul", {"sum", "product"}, "y")},
               {stored_random("w", {6, 5}), stored_random("b", {5})});
  EXPECT_EQ(count_of(import_graph(twice).model, "MatMul"), 1);
}

}  // namespace
}  // namespace kerf::partitioner::onnx
