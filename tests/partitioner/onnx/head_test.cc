// The head that --head replaces, in the forms that exporters write it in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/partitioner/onnx/made_graphs.h"
#include "tests/support/errors.h"

namespace kerf::partitioner::onnx {
namespace {

using testing::HasSubstr;
using tests::error_of;

constexpr int64_t kClasses = 5;

// That the head has as many classes, and begins anew under this name and with this bias.
void expect_head(const Graph& graph, const std::string& weight, const ops::Shape& shape,
                 const std::string& bias = "b", int64_t classes = kClasses) {
  const Imported imported = import_graph(graph, {.head = classes});
  const Model& model = imported.model;
  EXPECT_EQ(model.value(model.results().front().value).spec.shape,
            ops::Shape({ops::kBatch, classes}));
  for (const auto& [name, wanted] : {std::pair{weight, shape}, {bias, ops::Shape{classes}}}) {
    const ValueId id = model.find_value(name);
    ASSERT_GE(id, 0) << name;
    EXPECT_EQ(model.value(id).spec.shape, wanted) << name;
    EXPECT_EQ(model.value(id).contents, nullptr) << name;
    EXPECT_EQ(model.value(id).role, Role::kParameter) << name;
  }
}

GraphNode constant(const std::string& name, const ops::Shape& shape) {
  return node_of("Constant", {}, name, {{"value", ramp(shape)}});
}

// x W + b of 3 classes, of nodes that give W and b.
Graph head_graph(std::vector<GraphNode> nodes, std::vector<Stored> weights) {
  nodes.push_back(node_of("MatMul", {"x", "W"}, "product"));
  nodes.push_back(node_of("Add", {"b", "product"}, "y"));
  return graph_of({4}, std::move(nodes), std::move(weights));
}

TEST(Head, OfAWeightThatIsTurnedOver) {
  // The model has it as the product reads it; files of weights as this file.
  expect_head(head_graph({node_of("Transpose", {"w"}, "W", {{"perm", Ints{1, 0}}})},
                         {stored_random("w", {3, 4}), stored_random("b", {3})}),
              "w", {4, kClasses});
  Graph gemm = graph_of({4},
                        {node_of("Transpose", {"w"}, "W", {{"perm", Ints{1, 0}}}),
                         node_of("Gemm", {"x", "W", "b"}, "y", {{"transB", int64_t{1}}})},
                        {stored_random("w", {4, 3}), stored_random("b", {3})});
  expect_head(gemm, "w", {kClasses, 4});
}

TEST(Head, OutputsThatNoLossIsOfAreNamed) {
  Graph graph = head_graph({}, {stored_random("W", {4, 3}), stored_random("b", {3})});
  graph.outputs.emplace_back("product");
  EXPECT_THAT(import_graph(graph, {.loss = kCrossEntropy}).notes,
              testing::Contains(HasSubstr("neither the model nor an export has product")));
  graph.outputs.pop_back();
  EXPECT_THAT(import_graph(graph, {.loss = kCrossEntropy}).notes,
              testing::Not(testing::Contains(HasSubstr("neither"))));
}

TEST(Head, ThroughAnIdentity) {
  expect_head(head_graph({node_of("Identity", {"w"}, "W"), node_of("Identity", {"bias"}, "b")},
                         {stored_random("w", {4, 3}), stored_random("bias", {3})}),
              "w", {4, kClasses}, "bias");
}

TEST(Head, ThroughAnIdentityOfWhatIsUsedElsewhere) {
  Graph graph =
      graph_of({3},
               {node_of("Identity", {"w"}, "W"), node_of("Identity", {"first"}, "b"),
                node_of("Gemm", {"x", "w", "first"}, "h"), node_of("Gemm", {"h", "W", "b"}, "y")},
               {stored_random("w", {3, 3}), stored_random("first", {3})});
  expect_head(graph, "W", {3, kClasses});
  const Model model = import_graph(graph, {.head = kClasses}).model;
  EXPECT_EQ(model.value(model.find_value("w")).spec.shape, ops::Shape({3, 3}));
  graph.nodes[3].inputs[1] = "w";
  const auto error = error_of([&] { import_graph(graph, {.head = kClasses}); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("w is used elsewhere too, so the head cannot be replaced"));
}

TEST(Head, OfConstants) {
  expect_head(head_graph({constant("W", {4, 3}), constant("b", {3})}, {}), "W", {4, kClasses});
  expect_head(
      head_graph({constant("w", {3, 4}), node_of("Transpose", {"w"}, "W"),
                  node_of("Constant", {}, "b", {{"value_floats", std::vector<double>{1, 2, 3}}})},
                 {}),
      "w", {4, kClasses});
}

TEST(Head, OfOneClass) {
  expect_head(head_graph({}, {stored_random("W", {4, 3}), stored_random("b", {3})}), "W", {4, 1},
              "b", 1);
  expect_head(graph_of({4}, {node_of("Gemm", {"x", "W", "b"}, "y")},
                       {stored_random("W", {4, 3}), stored_random("b", {3})}),
              "W", {4, 1}, "b", 1);
}

TEST(Head, OneNumberForAllClassesStays) {
  Graph graph =
      graph_of({4}, {node_of("Gemm", {"x", "W", "b"}, "h"), node_of("Add", {"h", "k"}, "y")},
               {stored_random("W", {4, 3}), stored_random("b", {3}), stored("k", {1}, {2})});
  expect_head(graph, "W", {4, kClasses});
}

}  // namespace
}  // namespace kerf::partitioner::onnx
