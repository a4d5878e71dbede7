// Which constants of a file are trained: by the places where they are read, by their names, and by
// what the file says of its program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/partitioner/onnx/made_graphs.h"

namespace kerf::partitioner::onnx {
namespace {

using testing::UnorderedElementsAre;

constexpr int64_t kWidth = 4;

// Of x [N, 4] -> MatMul -> `before` -> `join` with w, which is called so.
struct Place {
  std::string before;
  std::string join;
  std::string name;
};

bool trains(const Place& place, const Stored& weight, const Graph& facts = {}) {
  std::vector<GraphNode> nodes{node_of("MatMul", {"x", "m"}, "product")};
  std::string last = "product";
  const auto add = [&](const std::string& op, const std::vector<std::string>& more,
                       ops::Attributes attributes) {
    std::vector<std::string> inputs{last};
    inputs.insert(inputs.end(), more.begin(), more.end());
    last = format("after{}", nodes.size());
    nodes.push_back(node_of(op, inputs, last, std::move(attributes)));
  };
  if (place.before == "Concat") {
    add("Concat", {"product"}, {{"axis", int64_t{1}}});
    add("Slice", {}, {{"starts", Ints{0}}, {"ends", Ints{kWidth}}, {"axes", Ints{1}}});
  } else if (place.before == "Split") {
    add("Split", {}, {{"axis", int64_t{1}}, {"split", Ints{kWidth}}});
  } else if (place.before == "Slice") {
    add("Slice", {}, {{"starts", Ints{0}}, {"ends", Ints{kWidth}}, {"axes", Ints{1}}});
  } else if (place.before == "Pad") {
    add("Pad", {}, {{"pads", Ints{0, 0, 0, 0}}});
  } else if (place.before == "Expand") {
    add("Expand", {}, {{"shape", Ints{1, kWidth}}});
  } else if (place.before == "product of two") {
    add("Unsqueeze", {}, {{"axes", Ints{2}}});
    add("MatMul", {"row"}, {});
    nodes.insert(nodes.begin() + 1, node_of("Unsqueeze", {"x"}, "row", {{"axes", Ints{1}}}));
  } else if (place.before == "x") {
    last = "x";
  } else if (!place.before.empty()) {
    add(place.before, {}, {});
  }
  add(place.join, {weight.name}, {});
  if (place.join == "Concat") nodes.back().attributes["axis"] = int64_t{0};
  nodes.push_back(node_of("Neg", {last}, "y"));
  Graph graph = graph_of({kWidth}, nodes, {stored_random("m", {kWidth, kWidth}), weight});
  graph.opset = 20;
  graph.torch = facts.torch;
  graph.computed = facts.computed;
  graph.by_torch = facts.by_torch;
  if (graph.by_torch) graph.nodes[0].name = "/layer/MatMul";
  const Model model = import_graph(graph).model;
  const ValueId id = model.find_value(weight.name);
  return id >= 0 && model.value(id).role == Role::kParameter;
}

bool trains(const Place& place, const Graph& facts = {}) {
  return trains(place, stored_random(place.name, {kWidth}), facts);
}

TEST(Trained, WhatIsJoinedWithWhatWeightsCompute) {
  struct Row {
    std::string before;
    std::string join;
    bool with_a_name;     // "layer.scale", of a module
    bool with_any_other;  // "scale"
  };
  const Row rows[] = {
      {"", "Add", true, true},         {"", "Mul", true, true},
      {"", "Sub", true, false},        {"", "Div", true, false},
      {"Relu", "Add", true, false},    {"Relu", "Mul", true, false},
      {"Gelu", "Add", true, false},    {"Sigmoid", "Mul", true, false},
      {"Softmax", "Mul", true, false}, {"Slice", "Add", true, false},
      {"Split", "Mul", true, false},   {"Pad", "Add", true, false},
      {"Expand", "Add", true, false},  {"Concat", "Mul", true, false},
      {"Identity", "Add", true, true}, {"product of two", "Add", true, false},
      {"Neg", "Max", true, false},     {"x", "Add", false, false},
      {"x", "Mul", false, false},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(trains({row.before, row.join, "layer.scale"}), row.with_a_name)
        << row.before << ", " << row.join;
    EXPECT_EQ(trains({row.before, row.join, "scale"}), row.with_any_other)
        << row.before << ", " << row.join;
  }
}

TEST(Trained, NamesOfAnExporterAreNone) {
  for (const char* name : {"onnx::Add_12", "/layer/Constant_output_0", "val_3.x", "_tensor.0",
                           "layer._tensor_constant0", "layer.lifted_tensor_0"})
    EXPECT_FALSE(trains({"Relu", "Add", name})) << name;
  Graph facts;
  facts.by_torch = true;  // which gives its constants such names, and no others
  EXPECT_TRUE(trains({"Relu", "Add", "scale"}, facts));
  EXPECT_FALSE(trains({"Relu", "Add", "onnx::Add_12"}, facts));
  EXPECT_FALSE(trains({"Relu", "Add", "12"}, facts));
}

// Of a layer with one output, and of one channel: what stands in a weight's own place.
TEST(Trained, OneNumberInThePlaceOfAWeight) {
  struct Row {
    GraphNode node;
    std::vector<Stored> weights;
    std::vector<std::string> trained;
  };
  const auto one = [](const std::string& name) { return stored(name, {1}, {0.5F}); };
  const Row rows[] = {
      {node_of("Gemm", {"x", "w", "b"}, "y"),
       {stored_random("w", {kWidth, 1}), one("b")},
       {"w", "b"}},
      {node_of("PRelu", {"x", "slope"}, "y"), {one("slope")}, {"slope"}},
      {node_of("MatMul", {"x", "w"}, "y"), {stored_random("w", {kWidth, 1})}, {"w"}},
  };
  for (const Row& row : rows) {
    const Model model = import_graph(graph_of({kWidth}, {row.node}, row.weights)).model;
    std::vector<std::string> trained;
    for (const ValueId id : model.parameters()) trained.push_back(model.value(id).name);
    EXPECT_THAT(trained, testing::UnorderedElementsAreArray(row.trained)) << row.node.op;
  }
}

TEST(Trained, OneNumberOfAChannel) {
  const auto one = [](const std::string& name) { return stored(name, {1}, {0.5F}); };
  const Graph graph =
      graph_of({2, 4, 4},
               {node_of("Conv", {"x", "w", "b"}, "c", {{"kernel_shape", Ints{1, 1}}}),
                node_of("BatchNormalization", {"c", "scale", "shift", "mean", "var"}, "y")},
               {stored_random("w", {1, 2, 1, 1}), one("b"), one("scale"), one("shift"), one("mean"),
                one("var")});
  const Imported imported = import_graph(graph, {.loss = "mse"});
  const auto role_of = [&](const std::string& name) {
    return imported.model.value(imported.model.find_value(name)).role;
  };
  for (const char* name : {"b", "scale", "shift"}) EXPECT_EQ(role_of(name), Role::kParameter);
  for (const char* name : {"mean", "var"}) EXPECT_EQ(role_of(name), Role::kFrozen) << "saved";
  EXPECT_TRUE(imported.folded.weights.empty()) << "files of weights may have others";
  const Model training = import_graph(graph, {.loss = "mse", .train_batch_norms = true}).model;
  EXPECT_EQ(training.value(training.find_value("mean")).role, Role::kState);
}

TEST(Trained, OneNumberThatTheFileNames) {
  const auto gain = stored("layer.gain", {1}, {2});
  const auto scalar = stored("layer.gain", {}, {2});
  const Place place{"Relu", "Mul", "layer.gain"};
  Graph facts;
  facts.torch = {{"layer.gain", true}};
  EXPECT_TRUE(trains(place, gain, facts)) << "a parameter";
  EXPECT_TRUE(trains(place, scalar, facts));
  facts.torch = {{"layer.gain", false}};
  EXPECT_FALSE(trains(place, gain, facts)) << "a buffer";
  facts.torch = {};
  facts.by_torch = true;
  EXPECT_TRUE(trains(place, gain, facts)) << "a name of a module's";
  EXPECT_FALSE(trains({"Relu", "Mul", "onnx::Mul_3"}, stored("onnx::Mul_3", {1}, {2}), facts));
}

TEST(Trained, ScalarsAndMasksAndAnglesNever) {
  const Place place{"Relu", "Add", "layer.it"};
  EXPECT_FALSE(trains(place, stored("layer.it", {}, {2})));
  EXPECT_FALSE(trains(place, stored("layer.it", {1}, {2})));
  EXPECT_FALSE(trains(place, stored("layer.it", {4}, {0, 1, 1, 0})));
  EXPECT_FALSE(trains(place, stored("layer.it", {4}, {0, -1e9F, 0, 0})));
  EXPECT_TRUE(trains(place, stored("layer.it", {4}, {1, 1, 1, 1})));
  std::vector<float> angles{0, 1, 0, 1};
  for (int i = 1; i < 4; ++i)
    for (const double turn : {1.0, 0.01}) {
      angles.push_back(static_cast<float>(std::sin(i * turn)));
      angles.push_back(static_cast<float>(std::cos(i * turn)));
    }
  const Place scores{"product of two", "Mul", "layer.it"};
  EXPECT_FALSE(trains(scores, stored("layer.it", {4, 4}, angles)));
  angles[0] = 0.5F;
  EXPECT_TRUE(trains(scores, stored("layer.it", {4, 4}, angles)));
}

TEST(Trained, WhatTheFileSaysGoesBefore) {
  Graph facts;
  facts.torch = {{"scale", true}, {"layer.scale", false}};
  EXPECT_TRUE(trains({"Relu", "Add", "scale"}, facts));
  EXPECT_TRUE(trains({"x", "Add", "scale"}, facts));
  EXPECT_FALSE(trains({"", "Add", "layer.scale"}, facts));
  EXPECT_FALSE(trains({"", "MatMul", "layer.scale"}, stored_random("layer.scale", {4, 4}), facts));
  EXPECT_FALSE(trains({"", "Add", "layer.other"}, facts));
  EXPECT_TRUE(trains({"", "MatMul", "val_3"}, stored_random("val_3", {4, 4}), facts));
  facts.computed["val_3"] = {{}, true};  // ones, as of the exporter's own normalisations
  EXPECT_FALSE(trains({"", "MatMul", "val_3"}, stored_random("val_3", {4, 4}), facts));
  facts.computed["val_3"] = {{0}, true};
  EXPECT_TRUE(trains({"Relu", "Add", "val_3"}, facts));
  facts.computed["val_3"].only = false;
  EXPECT_FALSE(trains({"Relu", "Add", "val_3"}, facts));
}

// A number of the program's text, as in x * torch.tensor([...]), and a fixed kernel.
TEST(Trained, LiteralsOfPyTorchAreNone) {
  const auto trained = [](bool by_torch) {
    const auto constant = [](const std::string& name, const ops::Shape& shape) {
      return node_of("Constant", {}, name, {{"value", ramp(shape)}});
    };
    Graph graph = graph_of(
        {kWidth},
        {constant("scale", {kWidth}), constant("kernel", {kWidth, kWidth}),
         node_of("MatMul", {"x", "m"}, "h"), node_of("Mul", {"h", "scale"}, "s"),
         node_of("Relu", {"s"}, "r"), node_of("MatMul", {"r", "kernel"}, "k"),
         node_of("Identity", {"shift"}, "shift.copy"), node_of("Add", {"k", "shift.copy"}, "y")},
        {stored_random("m", {kWidth, kWidth}), stored_random("shift", {kWidth})});
    graph.by_torch = by_torch;
    const Model model = import_graph(graph).model;
    std::vector<std::string> names;
    for (const ValueId id : model.parameters()) names.push_back(model.value(id).name);
    return names;
  };
  EXPECT_THAT(trained(true), UnorderedElementsAre("m", "shift"));
  EXPECT_THAT(trained(false), UnorderedElementsAre("m", "scale", "kernel", "shift"))
      << "other tools write weights so";
}

TEST(Trained, WhatIsNotIsTold) {
  const auto notes_of = [](const ImportOptions& options) {
    return import_graph(
               graph_of({kWidth},
                        {node_of("Add", {"x", "early"}, "e"), node_of("MatMul", {"e", "m"}, "y")},
                        {stored_random("m", {kWidth, kWidth}), stored_random("early", {kWidth})}),
               options)
        .notes;
  };
  const std::string told =
      "1 float tensor of the file is not trained: early; --train NAME trains one that is a weight";
  const auto has = [&](const std::vector<std::string>& notes) {
    return std::find(notes.begin(), notes.end(), told) != notes.end();
  };
  EXPECT_TRUE(has(notes_of({.loss = kCrossEntropy})));
  EXPECT_FALSE(has(notes_of({})));
  EXPECT_FALSE(has(notes_of({.train = {"early"}, .loss = kCrossEntropy})));
  EXPECT_FALSE(has(notes_of({.freeze = {"early"}, .loss = kCrossEntropy})));
}

}  // namespace
}  // namespace kerf::partitioner::onnx
