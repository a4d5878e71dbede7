// Operators that others stand for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "partitioner/onnx/evaluate.h"
#include "tests/partitioner/onnx/made_graphs.h"
#include "tests/support/errors.h"

namespace kerf::partitioner::onnx {
namespace {

using tests::error_of;

std::vector<float> answers(const Graph& graph, const ops::Shape& x) {
  Evaluator evaluator;
  return numbers_of(evaluate(import_graph(graph).model, {{"x", ramp(x)}}, evaluator)[0]);
}

TEST(Expanded, GroupNormalizationOfGroupsScaledAsOne) {
  Graph graph = graph_of({4, 3},
                         {node_of("GroupNormalization", {"x", "g", "b"}, "y",
                                  {{"num_groups", int64_t{2}}, {"epsilon", 0.25}})},
                         {stored("g", {2}, {2, -1}), stored("b", {2}, {0.5F, 3})});
  graph.opset = 18;
  const std::vector<float> got = answers(graph, {2, 4, 3});
  const std::vector<float> x = numbers_of(ramp({2, 4, 3}));
  for (size_t group = 0; group < 4; ++group) {
    double mean = 0;
    double square = 0;
    for (size_t i = 0; i < 6; ++i) mean += static_cast<double>(x[group * 6 + i]) / 6;
    for (size_t i = 0; i < 6; ++i)
      square += std::pow(static_cast<double>(x[group * 6 + i]) - mean, 2) / 6;
    const double scale = group % 2 == 0 ? 2 : -1;
    const double shift = group % 2 == 0 ? 0.5 : 3;
    for (size_t i = 0; i < 6; ++i) {
      const double normal =
          (static_cast<double>(x[group * 6 + i]) - mean) / std::sqrt(square + 0.25);
      EXPECT_NEAR(got[group * 6 + i], normal * scale + shift, 1e-5);
    }
  }
  const Model model = import_graph(graph).model;
  EXPECT_EQ(model.value(model.find_value("g")).role, Role::kParameter);
  graph.opset = 21;
  EXPECT_TRUE(error_of([&] { import_graph(graph); })) << "from then on, of channels";
}

TEST(Expanded, ScatterIsAnOlderName) {
  Graph graph =
      graph_of({3}, {node_of("Scatter", {"x", "at", "x"}, "y", {{"axis", int64_t{1}}})}, {});
  graph.initializers.emplace("at", stored_integers("at", {2, 0, 1}));
  graph.opset = 9;
  const auto error = error_of([&] { import_graph(graph); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), testing::HasSubstr("ScatterElements cannot put updates"));
}

TEST(Expanded, SequencesAreConstants) {
  const Graph range = graph_of(
      {4}, {node_of("Range", {"start", "limit", "step"}, "r"), node_of("Add", {"x", "r"}, "y")},
      {stored("start", {}, {1}), stored("limit", {}, {-1}), stored("step", {}, {-0.5F})});
  EXPECT_EQ(import_graph(range).model.nodes(), 1);
  const std::vector<float> x = numbers_of(ramp({2, 4}));
  const std::vector<float> sums = answers(range, {2, 4});
  for (size_t i = 0; i < 8; ++i)
    EXPECT_NEAR(sums[i], x[i] + 1 - 0.5F * static_cast<float>(i % 4), 1e-6F);
  Graph window =
      graph_of({5}, {node_of("HannWindow", {"size"}, "w"), node_of("Mul", {"x", "w"}, "y")}, {});
  window.initializers.emplace("size", stored_integers("size", {5}));
  const std::vector<float> shaped = answers(window, {1, 5});
  for (size_t i = 0; i < 5; ++i)
    EXPECT_NEAR(shaped[i],
                numbers_of(ramp({1, 5}))[i] *
                    std::pow(std::sin(std::numbers::pi * static_cast<double>(i) / 5), 2),
                1e-6);
}

// The whole numbers that the eight bits of both stand for, times the scales.
TEST(Expanded, QuantizedWeightsAndActivations) {
  const auto scale = [](const char* name, float step) { return stored(name, {}, {step}); };
  Graph graph = graph_of({3},
                         {node_of("QuantizeLinear", {"x", "step"}, "q"),
                          node_of("DequantizeLinear", {"q", "step"}, "y")},
                         {scale("step", 0.25F)});
  const std::vector<float> x = numbers_of(ramp({2, 3}));
  const std::vector<float> got = answers(graph, {2, 3});
  for (size_t i = 0; i < 6; ++i) {
    const float steps = std::nearbyint(x[i] / 0.25F);
    EXPECT_EQ(got[i], std::max(steps, 0.0F) * 0.25F);  // of bytes without a sign
  }
}

TEST(Expanded, NoBatchHasAnExtentOfZero) {
  Graph graph =
      graph_of({3}, {node_of("Reshape", {"x", "shape"}, "y", {{"allowzero", int64_t{1}}})}, {});
  graph.initializers.emplace("shape", stored_integers("shape", {0, 3}));
  const auto error = error_of([&] { import_graph(graph); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), testing::HasSubstr("by allowzero"));
}

}  // namespace
}  // namespace kerf::partitioner::onnx
