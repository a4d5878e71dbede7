#include "partitioner/onnx/pruned.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partitioner/losses.h"
#include "tests/partitioner/onnx/made_graphs.h"

namespace kerf::partitioner::onnx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ValueId output_of(const Model& model, NodeId node) { return model.node(node).outputs[0]; }

//   x ── wide (Gemm) ── relu ── scores
//          └── turned ── a shape that was folded
//   mask ── spread ── further ── likewise
struct Scene {
  Model model{"scene"};
  std::vector<std::string> notes;
  Scene() {
    const ops::ValueSpec row{ops::DType::kFloat32, {ops::kBatch, 4}};
    const ValueId x = model.add_input("x", row);
    const ValueId mask = model.add_input("mask", row);
    const ValueId weight = model.add_parameter("weight", {ops::DType::kFloat32, {4, 3}}, {});
    const ValueId unread = model.add_parameter("unread", {ops::DType::kFloat32, {4, 3}}, {});
    const ValueId wide = output_of(model, model.add_node("wide", "Gemm", {}, {x, weight}));
    model.add_node("turned", "Relu", {}, {wide});
    const ValueId spread = output_of(model, model.add_node("spread", "Neg", {}, {mask}));
    model.add_node("further", "MatMul", {}, {spread, unread});
    model.add_result("scores", output_of(model, model.add_node("relu", "Relu", {}, {wide})));
  }
};

TEST(Pruned, HasWhatItsResultsNeedAndNoMore) {
  Scene scene;
  const Model made = pruned(scene.model, scene.notes);
  std::vector<std::string> nodes;
  for (NodeId id = 0; id < made.nodes(); ++id) nodes.push_back(made.node(id).name);
  EXPECT_THAT(nodes, ElementsAre("wide", "relu"));
  std::vector<std::string> values;
  for (ValueId id = 0; id < made.values(); ++id)
    if (made.value(id).producer < 0) values.push_back(made.value(id).name);
  EXPECT_THAT(values, ElementsAre("x", "weight"));
  EXPECT_THAT(scene.notes, ElementsAre(HasSubstr("input mask has no part")));
  ASSERT_EQ(made.results().size(), 1U);
  EXPECT_EQ(made.results()[0].name, "scores");
  EXPECT_EQ(made.node(made.find_node("relu")).key,
            scene.model.node(scene.model.find_node("relu")).key);
  made.check();
}

// A shape that is known needs nobody to compute what has it.
TEST(Pruned, WhatOnlyAShapeWasTakenOfGoes) {
  const Graph graph =
      graph_of({3},
               {node_of("Add", {"x", "spare"}, "moved"), node_of("Shape", {"moved"}, "shape"),
                node_of("Reshape", {"x", "shape"}, "same"), node_of("Gemm", {"same", "w"}, "y")},
               {stored("spare", {3}, {1, 2, 3}), stored_random("w", {3, 4})});
  const Model model = import_graph(graph, {.loss = kCrossEntropy}).model;
  EXPECT_GE(model.find_node("y.node"), 0);
  EXPECT_EQ(model.find_node("moved.node"), -1);
  EXPECT_EQ(model.find_value("spare"), -1);
  EXPECT_NO_THROW(model.check());
}

}  // namespace
}  // namespace kerf::partitioner::onnx
