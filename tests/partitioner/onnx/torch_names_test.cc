// Weights that an exporter turned over or renamed have their PyTorch names and axes in files.
#include "partitioner/onnx/torch_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partitioner/onnx/import.h"
#include "partitioner/onnx/weight_file.h"

namespace kerf::partitioner::onnx {
namespace {

using Ints = std::vector<int64_t>;

void add_weight(Graph& graph, const std::string& name, const ops::Shape& shape) {
  std::vector<float> numbers(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  const std::string bytes(reinterpret_cast<const char*>(numbers.data()),
                          numbers.size() * sizeof(float));
  Stored stored{name,
                {ops::DType::kFloat32, shape},
                ops::DType::kFloat32,
                contents_of(bytes, ops::DType::kFloat32)};
  graph.initializers.emplace(name, std::move(stored));
}

// x [N, 5, 3] -> layers.0.linear (3 -> 4, with a bias) -> layers.1.linear (4 -> 2, without).
Graph linear_layers() {
  Graph graph{"layers.onnx", 17, {}, {{"x", ops::DType::kFloat32, {{-1, "N"}, {5, ""}, {3, ""}}}},
              {"y"},         {}};
  add_weight(graph, "onnx::MatMul_7", {3, 4});
  add_weight(graph, "layers.0.linear.bias", {4});
  add_weight(graph, "onnx::MatMul_8", {4, 2});
  graph.nodes = {{"/layers/layers.0/linear/MatMul", "MatMul", {}, {"x", "onnx::MatMul_7"}, {"a"}},
                 {"/layers/layers.0/linear/Add", "Add", {}, {"layers.0.linear.bias", "a"}, {"b"}},
                 {"/layers/layers.1/linear/MatMul", "MatMul", {}, {"b", "onnx::MatMul_8"}, {"y"}}};
  return graph;
}

const StoredForm& form_of(const Model& model, const std::string& value) {
  const auto& form = model.value(model.find_value(value)).stored;
  if (form == nullptr) throw std::runtime_error(value + " is as it is");
  return *form;
}

TEST(TorchNames, AModuleIsWhatItsNodesAreCalledAfter) {
  EXPECT_EQ(module_of("/encoder/layers.0/linear1/MatMul"), "encoder.layers.0.linear1");
  EXPECT_EQ(module_of("/layer1/layer1.0/conv1/Conv"), "layer1.0.conv1");
  EXPECT_EQ(module_of("/MatMul"), "");
  EXPECT_EQ(module_of("MatMul_3"), "");
}

// x [N, 4, 6] in two groups, as either exporter writes nn.GroupNorm.
Graph group_norm(const std::string& scale, const std::string& shift) {
  Graph graph{"norm.onnx", 17, {}, {{"x", ops::DType::kFloat32, {{-1, "N"}, {4, ""}, {6, ""}}}},
              {"y"},       {}};
  add_weight(graph, scale, {4, 1});
  add_weight(graph, shift, {4, 1});
  add_weight(graph, "ones", {2});
  add_weight(graph, "zeros", {2});
  graph.nodes = {
      {"/a/norm/Reshape", "Reshape", {{"shape", Ints{0, 2, -1}}}, {"x"}, {"groups"}},
      {"/a/norm/InstanceNormalization",
       "InstanceNormalization",
       {},
       {"groups", "ones", "zeros"},
       {"normal"}},
      {"/a/norm/Reshape_1", "Reshape", {{"shape", Ints{0, 4, 6}}}, {"normal"}, {"channels"}},
      {"/a/norm/Mul", "Mul", {}, {"channels", scale}, {"scaled"}},
      {"/a/norm/Add", "Add", {}, {"scaled", shift}, {"y"}}};
  return graph;
}

TEST(TorchNames, GroupNormsHaveTheirNamesAndShapesBack) {
  const auto expect_named = [](const Graph& graph, const char* scale, const char* shift) {
    const Model model = import_graph(graph).model;
    for (const auto& [value, name] : {std::pair(scale, "a.norm.weight"), {shift, "a.norm.bias"}}) {
      EXPECT_EQ(form_of(model, value).tensors[0].name, name);
      EXPECT_EQ(form_of(model, value).tensors[0].shape, ops::Shape{4});
    }
  };
  Graph graph = group_norm("onnx::Mul_3", "onnx::Add_4");
  expect_named(graph, "onnx::Mul_3", "onnx::Add_4");
  Graph copied = graph;  // as of one that was equal to another
  copied.nodes.insert(copied.nodes.begin(),
                      {"Identity_0", "Identity", {}, {"onnx::Mul_1"}, {"onnx::Mul_3"}});
  copied.initializers.erase("onnx::Mul_3");
  add_weight(copied, "onnx::Mul_1", {4, 1});
  copied.nodes.back().outputs = {"shifted"};
  copied.nodes.push_back({"after", "Mul", {}, {"shifted", "onnx::Mul_1"}, {"y"}});
  expect_named(copied, "onnx::Mul_3", "onnx::Add_4");
  graph.nodes[3].name = "/a/norm/Mul_1";
  graph.nodes.insert(graph.nodes.begin(),
                     {"/a/norm/Mul", "Mul", {}, {"x0", "x0"}, {"x"}});  // a second of its module's
  graph.inputs[0].name = "x0";
  const Model two = import_graph(graph).model;
  EXPECT_EQ(two.value(two.find_value("onnx::Mul_3")).stored, nullptr);
  Graph newer = group_norm("val_21", "val_23");
  newer.torch = {{"a.norm.weight", true}, {"a.norm.bias", true}};
  newer.computed = {{"val_21", {{0}, true}}, {"val_23", {{1}, true}}, {"ones", {{}, true}}};
  for (GraphNode& node : newer.nodes) {
    node.name = node.outputs[0] + ".node";
    node.scope = "a.norm";
    node.call = "group_norm";
    node.call_reads = {0, 1};
  }
  expect_named(newer, "val_21", "val_23");
  newer.computed["val_21"].only = false;
  const Model other = import_graph(newer).model;
  EXPECT_EQ(other.value(other.find_value("val_21")).stored, nullptr);
}

TEST(TorchNames, WeightsOfLinearLayersHaveTheirNamesAndAxesBack) {
  const Imported imported = import_graph(linear_layers());
  const StoredForm& first = form_of(imported.model, "onnx::MatMul_7");
  EXPECT_EQ(first.tensors[0].name, "layers.0.linear.weight");
  EXPECT_EQ(first.tensors[0].shape, (ops::Shape{4, 3}));
  EXPECT_EQ(form_of(imported.model, "onnx::MatMul_8").tensors[0].name, "layers.1.linear.weight");
  EXPECT_EQ(imported.model.value(imported.model.find_value("layers.0.linear.bias")).stored,
            nullptr);
  EXPECT_THAT(imported.notes,
              testing::Contains("onnx::MatMul_7 is layers.0.linear.weight in files of weights"));
}

// The newer exporter turns weights over too, and says of each node which module it is of.
TEST(TorchNames, AModuleIsWhatMetadataSays) {
  Graph graph = linear_layers();
  graph.initializers.clear();
  add_weight(graph, "val_7", {3, 4});
  add_weight(graph, "layers.0.linear.bias", {4});
  add_weight(graph, "val_8", {4, 2});
  graph.nodes[0].inputs[1] = "val_7";
  graph.nodes[2].inputs[1] = "val_8";
  graph.nodes[2].name = "node_linear_2";
  const Model silent = import_graph(graph).model;
  EXPECT_EQ(silent.value(silent.find_value("val_7")).stored, nullptr);
  graph.nodes[0].scope = "layers.0.linear";
  graph.nodes[2].scope = "layers.1.linear";
  graph.nodes[2].scope_class = "torch.nn.modules.rnn.RNN";  // which has no weight of that name
  const Model other = import_graph(graph).model;
  EXPECT_EQ(form_of(other, "val_7").tensors[0].name, "layers.0.linear.weight");
  EXPECT_EQ(other.value(other.find_value("val_8")).stored, nullptr);
  graph.nodes[2].scope_class = "torch.nn.modules.linear.Linear";
  const Model model = import_graph(graph).model;
  EXPECT_EQ(form_of(model, "val_7").tensors[0].name, "layers.0.linear.weight");
  EXPECT_EQ(form_of(model, "val_8").tensors[0].name, "layers.1.linear.weight");
}

// Of queries, keys and values together.
TEST(TorchNames, APackedWeightIsCalledAfterItsBias) {
  Graph graph = linear_layers();
  add_weight(graph, "layers.0.attn.in_proj_bias", {4});
  graph.nodes[0].name = "/layers/layers.0/attn/MatMul";
  graph.nodes[1].inputs[0] = "layers.0.attn.in_proj_bias";
  const Model model = import_graph(graph).model;
  EXPECT_EQ(form_of(model, "onnx::MatMul_7").tensors[0].name, "layers.0.attn.in_proj_weight");
}

TEST(TorchNames, AWeightOfOneOfSeveralInAModuleKeepsTheNameOfTheFile) {
  Graph two = linear_layers();
  two.nodes[0].name = "/layers/layers.1/linear/MatMul_1";
  const Model products = import_graph(two).model;
  EXPECT_EQ(products.value(products.find_value("onnx::MatMul_8")).stored, nullptr);
  Graph beside = linear_layers();
  add_weight(beside, "layers.1.linear.gain", {2});
  const Model others = import_graph(beside).model;
  EXPECT_EQ(others.value(others.find_value("onnx::MatMul_8")).stored, nullptr);
}

// As exporters write layers that were equal.
TEST(TorchNames, ACopyOfAWeightHasTheNameOfItsOwnLayer) {
  Graph graph = linear_layers();
  for (const char* name : {"onnx::MatMul_7", "onnx::MatMul_8", "layers.0.linear.bias"})
    graph.initializers.erase(name);
  add_weight(graph, "onnx::MatMul_7", {3, 3});
  add_weight(graph, "layers.0.linear.bias", {3});
  graph.nodes.insert(graph.nodes.begin(),
                     {"same", "Identity", {}, {"onnx::MatMul_7"}, {"onnx::MatMul_8"}});
  const Model model = import_graph(graph).model;
  EXPECT_EQ(form_of(model, "onnx::MatMul_7").tensors[0].name, "layers.0.linear.weight");
  EXPECT_EQ(form_of(model, "onnx::MatMul_8").tensors[0].name, "layers.1.linear.weight");
}

// "/layers/layers.1/linear" is layers.1.linear, or layers.layers.1.linear.
TEST(TorchNames, AModuleThatMayBeTwoIsNone) {
  Graph graph = linear_layers();
  add_weight(graph, "layers.layers.1.linear.gain", {2});
  const Model model = import_graph(graph).model;
  EXPECT_EQ(model.value(model.find_value("onnx::MatMul_8")).stored, nullptr);
}

TEST(TorchNames, ABiasThatWasEqualToAnotherSaysItsModule) {
  Graph graph = linear_layers();
  graph.nodes[1].inputs[0] = "first.bias";
  graph.nodes.insert(graph.nodes.begin(),
                     {"same", "Identity", {}, {"layers.0.linear.bias"}, {"first.bias"}});
  const Model model = import_graph(graph).model;
  EXPECT_EQ(form_of(model, "onnx::MatMul_7").tensors[0].name, "first.weight");
}

// Of x [N, 4, 5] with a slope for each of 4 channels.
TEST(TorchNames, SlopesAreOneList) {
  Graph graph{"slopes.onnx", 17, {}, {{"x", ops::DType::kFloat32, {{-1, "N"}, {4, ""}, {5, ""}}}},
              {"y"},         {}};
  add_weight(graph, "onnx::PRelu_3", {4, 1});
  graph.nodes = {{"/slopes/PRelu", "PRelu", {}, {"x", "onnx::PRelu_3"}, {"y"}}};
  const Model model = import_graph(graph).model;
  EXPECT_EQ(form_of(model, "onnx::PRelu_3").tensors[0].name, "slopes.weight");
  EXPECT_EQ(form_of(model, "onnx::PRelu_3").tensors[0].shape, ops::Shape{4});
}

TEST(TorchNames, ManyNamesAreOneNote) {
  Graph graph = linear_layers();
  graph.nodes.resize(2);
  graph.outputs = {"y"};
  std::string last = "b";
  for (int i = 1; i < 5; ++i) {
    const std::string weight = format("onnx::MatMul_{}", 10 + i);
    add_weight(graph, weight, {4, 4});
    graph.nodes.push_back({format("/layers/layers.{}/linear/MatMul", i),
                           "MatMul",
                           {},
                           {last, weight},
                           {i == 4 ? "y" : format("b{}", i)}});
    last = graph.nodes.back().outputs[0];
  }
  EXPECT_THAT(import_graph(graph).notes,
              testing::ElementsAre("onnx::MatMul_7 is layers.0.linear.weight in files of weights, "
                                   "and 4 others have other names there than in this file",
                                   "1 linear layer put together"));
}

TEST(TorchNames, PatternsMeanTheNamesOfFilesToo) {
  const Model model = import_graph(linear_layers(), {.freeze = {"layers.0.*"}}).model;
  EXPECT_EQ(model.value(model.find_value("onnx::MatMul_7")).role, Role::kFrozen);
  EXPECT_EQ(model.value(model.find_value("onnx::MatMul_8")).role, Role::kParameter);
}

TEST(TorchNames, ANameThatAnotherWeightHasIsNotTaken) {
  Graph graph = linear_layers();
  add_weight(graph, "layers.1.linear.weight", {4});
  graph.nodes[2].inputs[0] = "c";
  graph.nodes.insert(graph.nodes.begin() + 2,
                     {"shift", "Add", {}, {"b", "layers.1.linear.weight"}, {"c"}});
  const Model model = import_graph(graph).model;
  EXPECT_EQ(model.value(model.find_value("onnx::MatMul_8")).stored, nullptr);
}

// As the exporter of torch.export writes it: the weight as it is, and a node that turns it over.
TEST(TorchNames, ATransposedWeightKeepsTheAxesOfTheFile) {
  Graph graph = linear_layers();
  add_weight(graph, "out.weight", {2, 4});
  graph.nodes[2].inputs[1] = "turned";
  graph.nodes.insert(graph.nodes.begin() + 2,
                     {"turn", "Transpose", {{"perm", Ints{1, 0}}}, {"out.weight"}, {"turned"}});
  const Model model = import_graph(graph).model;
  const Value& value = model.value(model.find_value("out.weight"));
  EXPECT_EQ(value.spec.shape, (ops::Shape{4, 2}));
  EXPECT_EQ(value.stored->tensors[0].shape, (ops::Shape{2, 4}));
  EXPECT_THAT(value.stored->axes, testing::ElementsAre(1, 0));
  // Twice is as it was.
  graph.nodes[2] = {"turn", "Transpose", {{"perm", Ints{1, 0}}}, {"out.weight"}, {"once"}};
  graph.nodes.insert(graph.nodes.begin() + 3, {"back", "Transpose", {}, {"once"}, {"twice"}});
  graph.nodes.insert(graph.nodes.begin() + 4, {"again", "Transpose", {}, {"twice"}, {"turned"}});
  const Model thrice = import_graph(graph).model;
  EXPECT_THAT(thrice.value(thrice.find_value("out.weight")).stored->axes,
              testing::ElementsAre(1, 0));
}

TEST(TorchNames, AReshapedWeightKeepsTheShapeOfTheFile) {
  Graph graph = linear_layers();
  add_weight(graph, "scale", {2});
  graph.nodes[2].outputs[0] = "z";
  graph.nodes.push_back({"view", "Unsqueeze", {{"axes", Ints{0}}}, {"scale"}, {"row"}});
  graph.opset = 12;
  graph.nodes.push_back({"scaled", "Mul", {}, {"z", "row"}, {"y"}});
  const Model model = import_graph(graph).model;
  const Value& value = model.value(model.find_value("scale"));
  EXPECT_EQ(value.spec.shape, (ops::Shape{1, 2}));
  EXPECT_EQ(value.stored->tensors[0].shape, ops::Shape{2});
}

TEST(TorchNames, ALayerOfAnLstmHasFourTensors) {
  Graph graph{"lstm.onnx", 17, {}, {{"x", ops::DType::kFloat32, {{5, ""}, {-1, "N"}, {3, ""}}}},
              {"y"},       {}};
  graph.inputs[0].shape = {{-1, "N"}, {5, ""}, {3, ""}};
  add_weight(graph, "onnx::LSTM_20", {1, 8, 3});
  add_weight(graph, "onnx::LSTM_21", {1, 8, 2});
  add_weight(graph, "onnx::LSTM_22", {1, 16});
  graph.nodes = {{"/rnn/LSTM_1",
                  "LSTM",
                  {{"hidden_size", int64_t{2}}, {"layout", int64_t{1}}},
                  {"x", "onnx::LSTM_20", "onnx::LSTM_21", "onnx::LSTM_22"},
                  {"y"}}};
  const Model model = import_graph(graph).model;
  EXPECT_EQ(form_of(model, "onnx::LSTM_20").tensors[0].name, "rnn.weight_ih_l1");
  EXPECT_EQ(form_of(model, "onnx::LSTM_21").tensors[0].shape, (ops::Shape{8, 2}));
  const StoredForm& biases = form_of(model, "onnx::LSTM_22");
  EXPECT_EQ(biases.tensors[1].name, "rnn.bias_hh_l1");
  EXPECT_EQ(biases.tensors[1].shape, ops::Shape{8});
}

}  // namespace
}  // namespace kerf::partitioner::onnx
