// Models for answers: what follows a convolution is a part of it, the numbers are the same, and
// what only looks like it stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "partitioner/channels_last.h"
#include "partitioner/onnx/evaluate.h"
#include "partitioner/onnx/import.h"
#include "tests/partitioner/onnx/made_graphs.h"

namespace kerf::partitioner::onnx {
namespace {

using testing::ElementsAre;

constexpr int64_t kChannels = 4;
const ops::Attributes kSamePads{{"pads", std::vector<int64_t>{1, 1, 1, 1}}};

GraphNode conv(const std::string& x, const std::string& y) {
  return node_of("Conv", {x, "w", "b"}, y, kSamePads);
}
GraphNode norm(const std::string& x, const std::string& y) {
  return node_of("BatchNormalization", {x, "g", "s", "m", "v"}, y, {{"epsilon", 0.125}});
}
GraphNode relu(const std::string& x, const std::string& y) { return node_of("Relu", {x}, y); }
GraphNode sum(const std::string& a, const std::string& b, const std::string& y) {
  return node_of("Add", {a, b}, y);
}

// x [N, 4, 5, 6]; every convolution has the weights w and b, every normalisation g, s, m and v.
Graph image_graph(std::vector<GraphNode> nodes) {
  const auto some = [](const std::string& name, const ops::Shape& shape) {
    return stored(name, shape, numbers_of(ramp(shape)));
  };
  return graph_of({kChannels, 5, 6}, std::move(nodes),
                  {some("w", {kChannels, kChannels, 3, 3}), some("b", {kChannels}),
                   stored("g", {kChannels}, {1.5F, -0.5F, 2, 0.75F}), some("s", {kChannels}),
                   stored("m", {kChannels}, {0.25F, 0, -0.5F, 1}),
                   stored("v", {kChannels}, {0.5F, 2, 1, 0.25F})});
}

std::vector<std::string> operators_of(const Model& model) {
  std::vector<std::string> names;
  for (NodeId id = 0; id < model.nodes(); ++id) names.push_back(model.node(id).op);
  return names;
}

// The operators of the model for answers, after it was seen to say what the graph does.
std::vector<std::string> fused_operators(const Graph& graph) {
  const Model plain = import_graph(graph).model;
  const Model fused = import_graph(graph, {.answers = true}).model;
  Evaluator evaluator;
  const std::map<std::string, ops::TensorLiteral> inputs{{"x", ramp({2, kChannels, 5, 6})}};
  const auto expected = numbers_of(evaluate(plain, inputs, evaluator)[0]);
  for (const Model& model : {fused, channels_last(fused)}) {
    const auto numbers = numbers_of(evaluate(model, inputs, evaluator)[0]);
    EXPECT_EQ(numbers.size(), expected.size());
    for (size_t i = 0; i < std::min(numbers.size(), expected.size()); ++i)
      EXPECT_NEAR(numbers[i], expected[i], 1e-4F * std::abs(expected[i]) + 1e-5F) << i;
  }
  return operators_of(fused);
}

TEST(Answers, AConvolutionTakesUpItsNormalisationAndItsRelu) {
  EXPECT_THAT(fused_operators(image_graph({conv("x", "c"), relu("c", "y")})),
              ElementsAre("FusedConv"));
  EXPECT_THAT(fused_operators(image_graph({conv("x", "c"), norm("c", "y")})),
              ElementsAre("FusedConv"));
  EXPECT_THAT(fused_operators(image_graph({conv("x", "c"), norm("c", "n"), relu("n", "y")})),
              ElementsAre("FusedConv"));
}

//   x ── conv ── norm ── relu ── conv ── norm ── add ── relu ── y
//   └──────────────────────────────────────────── ┘
TEST(Answers, AResidualIsAddedByTheLastConvolution) {
  for (const bool sides : {false, true})
    EXPECT_THAT(fused_operators(image_graph(
                    {conv("x", "c"), norm("c", "n"), relu("n", "r"), conv("r", "d"), norm("d", "e"),
                     sides ? sum("e", "x", "a") : sum("x", "e", "a"), relu("a", "y")})),
                ElementsAre("FusedConv", "FusedConv"));
  EXPECT_THAT(fused_operators(image_graph({relu("x", "r"), conv("r", "c"), sum("c", "r", "y")})),
              ElementsAre("Relu", "FusedConv"));
}

TEST(Answers, OfTwoConvolutionsTheLaterOneAdds) {
  EXPECT_THAT(fused_operators(image_graph({conv("x", "c"), relu("x", "r"), conv("r", "d"),
                                           norm("d", "e"), sum("e", "c", "a"), relu("a", "y")})),
              ElementsAre("Conv", "Relu", "FusedConv"));
}

TEST(Answers, WhatSomebodyElseReadsStays) {
  EXPECT_THAT(fused_operators(image_graph({conv("x", "c"), relu("c", "r"), sum("r", "c", "y")})),
              ElementsAre("Conv", "Relu", "Add"));
  Graph graph = image_graph({conv("x", "c"), norm("c", "n"), relu("n", "y")});
  graph.outputs.emplace_back("n");
  EXPECT_THAT(fused_operators(graph), ElementsAre("FusedConv", "Relu"));
}

TEST(Answers, WhatOnlyLooksLikeItStays) {
  EXPECT_THAT(fused_operators(image_graph({conv("x", "c"), node_of("Sigmoid", {"c"}, "y")})),
              ElementsAre("Conv", "Sigmoid"));
  // What is added is repeated, is the sum itself, or is more than one.
  EXPECT_THAT(fused_operators(image_graph(
                  {conv("x", "c"), node_of("GlobalAveragePool", {"x"}, "p"), sum("c", "p", "y")})),
              ElementsAre("Conv", "GlobalAveragePool", "Add"));
  EXPECT_THAT(fused_operators(image_graph({conv("x", "c"), sum("c", "c", "y")})),
              ElementsAre("Conv", "Add"));
  EXPECT_THAT(fused_operators(image_graph({conv("x", "c"), node_of("Sum", {"c", "x", "x"}, "y")})),
              ElementsAre("Conv", "Sum"));
}

// They have a kernel of their own.
TEST(Answers, ConvolutionsOfTwoChannelsStay) {
  const Graph graph = graph_of({2, 4, 4}, {node_of("Conv", {"x", "w"}, "c"), relu("c", "y")},
                               {stored("w", {1, 2, 1, 1}, {0.5F, -1})});
  EXPECT_THAT(operators_of(import_graph(graph, {.answers = true}).model),
              ElementsAre("Conv", "Relu"));
}

TEST(Answers, ParametersKeepTheirNamesAndAreFrozen) {
  const Graph graph = image_graph({conv("x", "c"), norm("c", "n"), relu("n", "y")});
  const Model plain = import_graph(graph).model;
  const Model fused = import_graph(graph, {.answers = true}).model;
  for (const ValueId id : plain.kept_values()) {
    const ValueId same = fused.find_value(plain.value(id).name);
    ASSERT_GE(same, 0) << plain.value(id).name;
    EXPECT_NE(fused.value(same).role, Role::kParameter);
  }
}

}  // namespace
}  // namespace kerf::partitioner::onnx
