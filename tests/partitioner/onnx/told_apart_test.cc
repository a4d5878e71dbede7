// What PyTorch's newer exporter says of its program: tensors that were equal, and computed ones.
#include "partitioner/onnx/told_apart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partitioner/onnx/torch_program.h"
#include "tests/partitioner/onnx/made_graphs.h"

namespace kerf::partitioner::onnx {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kSignature =
    "\n# inputs\np_a_weight: PARAMETER target='a.weight'\nb_a_mean: BUFFER target='a.mean' "
    "persistent=True\nb_a_angles: BUFFER target='a.angles' persistent=False\nc_t: CONSTANT_TENSOR "
    "target='t'\nx: USER_INPUT\n\n# outputs\np_y: PARAMETER target='y'\n";

TEST(ToldApart, ASignatureHasParametersAndBuffers) {
  std::vector<TorchTensor> tensors;
  const TorchPlaces places = read_signature(kSignature, tensors);
  ASSERT_EQ(tensors.size(), 4U);
  EXPECT_EQ(tensors[0].name, "a.weight");
  EXPECT_TRUE(tensors[0].parameter);
  EXPECT_EQ(tensors[1].name, "a.mean");
  EXPECT_FALSE(tensors[1].parameter);
  EXPECT_TRUE(tensors[0].saved);
  EXPECT_TRUE(tensors[1].saved);
  EXPECT_FALSE(tensors[2].saved) << "state_dicts have no buffers that are not persistent";
  EXPECT_FALSE(tensors[3].saved) << "nor constants";
  EXPECT_EQ(places.size(), 4U);
  tensors.clear();
  const std::string endless(600, 'n');
  EXPECT_THAT(read_signature(
                  ": PARAMETER\np_x: target='\np_y: PARAMETER target='" + endless + "'\n", tensors),
              IsEmpty());
}

TEST(ToldApart, ACallReadsTensorsInItsOrder) {
  std::vector<TorchTensor> tensors;
  const TorchPlaces places = read_signature(kSignature, tensors);
  const TorchCall call = read_call(
      "%norm_1 : [num_users=1] = call_function[target=torch.ops.aten.norm](args = (%x, [%b_a_mean, "
      "%p_a_weight], %p_a_weight_1, %b_a_mean), kwargs = {})",
      places);
  EXPECT_EQ(call.name, "norm_1");
  EXPECT_THAT(call.reads, ElementsAre(1U, 0U));
  for (const char* other : {"", "%", "norm %p_a_weight"})
    EXPECT_EQ(read_call(other, places).name, "") << other;
}

TEST(ToldApart, AListHasTexts) {
  EXPECT_THAT(read_list("['a.weight', 'val_3']"), ElementsAre("a.weight", "val_3"));
  EXPECT_THAT(read_list("[]"), IsEmpty());
  EXPECT_THAT(read_list("['a.weight"), IsEmpty());
}

// x [N, 2] -> norm -> norm, of which the second reads what its call does not have.
Graph two_norms(const std::vector<std::string>& second_reads) {
  Graph graph =
      graph_of({2},
               {node_of("LayerNormalization", {"x", "n.weight", "n.bias"}, "h"),
                node_of("LayerNormalization", {"h", second_reads[0], second_reads[1]}, "y")},
               {stored("n.weight", {2}, {1, 1}), stored("n.bias", {2}, {0, 0}),
                stored("m.bias", {2}, {3, 4})});
  graph.torch = {{"n.weight", true}, {"n.bias", true}, {"m.weight", true}, {"m.bias", true}};
  graph.nodes[0].call = "layer_norm";
  graph.nodes[0].call_reads = {0, 1};
  graph.nodes[1].call = "layer_norm_1";
  graph.nodes[1].call_reads = {2, 3};
  return graph;
}

TEST(ToldApart, WhatWasEqualIsAWeightOfItsOwn) {
  Graph graph = two_norms({"n.weight", "m.bias"});
  std::vector<std::string> notes;
  tell_apart(graph, notes);
  EXPECT_THAT(graph.nodes[1].inputs, ElementsAre("h", "m.weight", "m.bias"));
  EXPECT_THAT(graph.nodes[0].inputs, ElementsAre("x", "n.weight", "n.bias"));
  EXPECT_EQ(graph.initializers.at("m.weight").contents, graph.initializers.at("n.weight").contents);
  EXPECT_THAT(notes, ElementsAre(testing::HasSubstr("1 tensor was equal to others")));
  EXPECT_THAT(graph.doubtful, IsEmpty());
  const Model model = import_graph(two_norms({"n.weight", "m.bias"})).model;
  EXPECT_EQ(model.value(model.find_value("m.weight")).role, Role::kParameter);
}

// Linear layers without a bias, of which both matrices were turned over, and are one.
TEST(ToldApart, WhatWasComputedOfEqualTensorsIsApartToo) {
  Graph graph = graph_of(
      {2}, {node_of("MatMul", {"x", "val_1"}, "h"), node_of("MatMul", {"h", "val_1"}, "y")},
      {stored("val_1", {2, 2}, {1, 2, 3, 4})});
  graph.torch = {{"a.weight", true}, {"b.weight", true}};
  graph.computed["val_1"] = {{0}, true};
  for (size_t i = 0; i < 2; ++i) {
    graph.nodes[i].scope = i == 0 ? "a" : "b";
    graph.nodes[i].call = i == 0 ? "linear" : "linear_1";
    graph.nodes[i].call_reads = {i};
  }
  const Model model = import_graph(graph).model;
  const ValueId second = model.find_value("val_1 of b.weight");
  ASSERT_GE(second, 0);
  EXPECT_EQ(model.value(second).stored->tensors[0].name, "b.weight");
  EXPECT_EQ(model.value(model.find_value("val_1")).stored->tensors[0].name, "a.weight");
}

// x [N, 2] -> a product whose bias of zeros an exporter left out.
TEST(ToldApart, ABiasThatIsLeftOutIsZeros) {
  const auto product = [](const std::string& op) {
    Graph graph = graph_of({2}, {node_of(op, {"x", "a.weight"}, "y")},
                           {stored("a.weight", {2, 3}, {1, 2, 3, 4, 5, 6})});
    graph.torch = {{"a.weight", true}, {"a.bias", true}};
    graph.nodes[0].call = "linear";
    graph.nodes[0].call_reads = {0, 1};
    return graph;
  };
  const Model model = import_graph(product("Gemm")).model;
  const ValueId bias = model.find_value("a.bias");
  ASSERT_GE(bias, 0);
  EXPECT_EQ(model.value(bias).spec.shape, ops::Shape{3});
  EXPECT_EQ(model.value(bias).role, Role::kParameter);
  expect_same_answers(product("Gemm"));
  EXPECT_THAT(import_graph(product("MatMul")).folded.lost, ElementsAre("a.bias"));
}

TEST(ToldApart, SoIsThatOfAConvolution) {
  const auto convolution = [](const std::string& op, const ops::Shape& weight, int64_t groups) {
    Graph graph = graph_of({4, 5}, {node_of(op, {"x", "a.weight"}, "y", {{"group", groups}})},
                           {stored_random("a.weight", weight)});
    graph.torch = {{"a.weight", true}, {"a.bias", true}};
    graph.nodes[0].call = "convolution_1";
    graph.nodes[0].call_reads = {0, 1};
    return graph;
  };
  const auto bias_of = [](const Graph& graph) {
    const Model model = import_graph(graph).model;
    const ValueId bias = model.find_value("a.bias");
    return bias < 0 ? ops::Shape{} : model.value(bias).spec.shape;
  };
  EXPECT_EQ(bias_of(convolution("Conv", {6, 2, 3}, 2)), ops::Shape{6});
  EXPECT_EQ(bias_of(convolution("ConvTranspose", {4, 3, 3}, 2)), ops::Shape{6});
  expect_same_answers(convolution("Conv", {6, 2, 3}, 2));
  expect_same_answers(convolution("ConvTranspose", {4, 3, 3}, 2));
  Graph folded = convolution("Conv", {6, 4, 3}, 1);  // with a normalisation, and without zeros
  folded.initializers["b"] = stored("b", {6}, {1, 2, 3, 4, 5, 6});
  folded.nodes[0].inputs.push_back("b");
  EXPECT_EQ(bias_of(folded), ops::Shape{});
}

// A bias that the first step of a loop, of a state of zeros, was computed of.
TEST(ToldApart, WhatIsLeftOfATensorIsListed) {
  Graph graph = graph_of({2},
                         {node_of("Add", {"x", "step"}, "h"), node_of("Add", {"h", "bias"}, "t"),
                          node_of("MatMul", {"t", "val_1"}, "y")},
                         {stored("bias", {2}, {1, 2}), stored("step", {1, 2}, {1, 2}),
                          stored("val_1", {2, 2}, {1, 2, 3, 4})});
  graph.torch = {{"weight", true}, {"bias", true}, {"a.weight", true}};
  graph.computed["step"] = {{0, 1}, true};
  graph.computed["val_1"] = {{2}, true};
  graph.nodes[2].scope = "a";
  graph.nodes[2].call = "linear";
  graph.nodes[2].call_reads = {2};
  const FoldedWeights folded = import_graph(graph).folded;
  ASSERT_EQ(folded.computed.size(), 2U) << "a.weight is a weight in another form";
  EXPECT_EQ(folded.computed.at("weight").made, "step");
  EXPECT_EQ(folded.computed.at("weight").before.contents, nullptr);
  EXPECT_NE(folded.computed.at("bias").before.contents, nullptr);
  EXPECT_TRUE(folded.computed.at("bias").parameter);
  EXPECT_THAT(folded.parameters, ElementsAre("a.weight", "bias", "weight"));
}

// A buffer is cut to what is read of it: files of weights have it whole, or not at all.
TEST(ToldApart, WhatIsMadeOfABufferIsDerived) {
  Graph graph = graph_of({2},
                         {node_of("Add", {"x", "slice_1"}, "h"), node_of("Add", {"h", "bias"}, "t"),
                          node_of("MatMul", {"t", "val_1"}, "y")},
                         {stored("bias", {2}, {1, 2}), stored("slice_1", {1, 2}, {1, 2}),
                          stored("val_1", {2, 2}, {1, 2, 3, 4})});
  graph.torch = {{"pe", false}, {"bias", true}, {"a.weight", true}};
  graph.computed["slice_1"] = {{0}, true};
  graph.computed["val_1"] = {{2}, true};
  graph.nodes[2].scope = "a";
  graph.nodes[2].call = "linear";
  graph.nodes[2].call_reads = {2};
  const Model model = import_graph(graph).model;
  const auto derived = [&](const char* name) {
    return model.value(model.find_value(name)).derived;
  };
  EXPECT_TRUE(derived("slice_1"));
  EXPECT_FALSE(derived("bias"));
  EXPECT_FALSE(derived("val_1")) << "a.weight in another form";
}

// y = (x m + a) b
Model model_of_two(const std::string& a, const std::string& b, const Graph& facts) {
  Graph graph = graph_of({2, 2},
                         {node_of("MatMul", {"x", "m"}, "h"), node_of("Add", {"h", a}, "t"),
                          node_of("Mul", {"t", b}, "y")},
                         {stored_random("m", {2, 2}), stored(a, {2, 2}, {0, 1, 0.6F, 0.8F}),
                          stored(b, {2, 2}, {0, 1, 0.8F, 0.6F})});
  graph.torch = facts.torch;
  graph.by_torch = facts.by_torch;
  return import_graph(graph).model;
}

TEST(ToldApart, FilesOfWeightsLackWhatTheProgramDidNotSave) {
  const auto lacked = [](const std::string& a, const std::string& b, const Graph& facts) {
    const Model model = model_of_two(a, b, facts);
    return std::pair(model.value(model.find_value(a)).derived,
                     model.value(model.find_value(b)).derived);
  };
  Graph facts;
  EXPECT_EQ(lacked("p.a", "Add_1", facts), std::pair(false, false)) << "of any other tool";
  facts.by_torch = true;
  EXPECT_EQ(lacked("p.a", "onnx::Mul_12", facts), std::pair(false, true)) << "a name of its own";
  facts.torch = {{"m", true}, {"p.a", false, true}, {"angles", false, false}};
  EXPECT_EQ(lacked("p.a", "angles", facts), std::pair(false, true));
  EXPECT_EQ(lacked("p.a", "slice_scatter_1", facts), std::pair(false, true)) << "of none of it";
}

// Its rows are a parameter: the call's other tensor is the weight, which was equal to another.
TEST(ToldApart, AProductOfAParameterHasNoBiasLeftOut) {
  Graph graph =
      graph_of({2}, {node_of("Gemm", {"token", "b.weight"}, "h"), node_of("Add", {"x", "h"}, "y")},
               {stored("token", {1, 2}, {5, 6}), stored("b.weight", {2, 2}, {1, 2, 3, 4})});
  graph.torch = {{"token", true}, {"a.weight", true}, {"b.weight", true}};
  graph.nodes[0].call = "linear";
  graph.nodes[0].call_reads = {0, 1};
  std::vector<std::string> notes;
  tell_apart(graph, notes);
  EXPECT_THAT(graph.nodes[0].inputs, ElementsAre("token", "a.weight"));
}

// addmm(bias, x, weight), of which both were equal to others.
TEST(ToldApart, AddmmHasItsBiasFirst) {
  Graph graph = graph_of({2},
                         {node_of("Gemm", {"x", "a.weight", "a.bias"}, "h"),
                          node_of("Gemm", {"h", "a.weight", "a.bias"}, "y")},
                         {stored("a.weight", {2, 2}, {1, 2, 3, 4}), stored("a.bias", {2}, {1, 2})});
  graph.torch = {{"a.bias", true}, {"a.weight", true}, {"b.bias", true}, {"b.weight", true}};
  for (size_t i = 0; i < 2; ++i) {
    graph.nodes[i].call = i == 0 ? "addmm" : "addmm_1";
    graph.nodes[i].call_reads = {2 * i, 2 * i + 1};
  }
  std::vector<std::string> notes;
  tell_apart(graph, notes);
  EXPECT_THAT(graph.nodes[1].inputs, ElementsAre("h", "b.weight", "b.bias"));
}

// Layers of scale and shift, torch.addcmul(beta, x, alpha), whose product is read before beta.
Graph two_affines(const std::string& call) {
  Graph graph =
      graph_of({2},
               {node_of("Mul", {"x", "a.alpha"}, "p"), node_of("Add", {"a.beta", "p"}, "h"),
                node_of("Mul", {"h", "a.alpha"}, "q"), node_of("Add", {"a.beta", "q"}, "y")},
               {stored("a.alpha", {2}, {1, 1}), stored("a.beta", {2}, {0, 0})});
  graph.torch = {{"a.beta", true}, {"a.alpha", true}, {"b.beta", true}, {"b.alpha", true}};
  for (size_t i = 0; i < 4; ++i) {
    graph.nodes[i].call = i < 2 ? call : call + "_1";
    graph.nodes[i].call_reads = i < 2 ? std::vector<size_t>{0, 1} : std::vector<size_t>{2, 3};
  }
  return graph;
}

TEST(ToldApart, AddcmulReadsItsFirstLast) {
  for (const char* call : {"addcmul", "addcdiv", "baddbmm"}) {
    Graph graph = two_affines(call);
    std::vector<std::string> notes;
    tell_apart(graph, notes);
    EXPECT_THAT(graph.nodes[2].inputs, ElementsAre("h", "b.alpha")) << call;
    EXPECT_THAT(graph.nodes[3].inputs, ElementsAre("b.beta", "q")) << call;
    EXPECT_THAT(graph.lost, IsEmpty());
  }
}

// baddbmm(b, x, w, beta=2), whose b is doubled before.
TEST(ToldApart, WhatIsScaledBeforeItIsAddedIsNotGuessed) {
  Graph graph = two_affines("baddbmm");
  for (GraphNode& node : graph.nodes)
    if (node.op == "Add") node.inputs[0] = node.outputs[0] + ".doubled";
  for (const size_t at : {size_t{1}, size_t{4}}) {
    GraphNode doubled = node_of("Mul", {"a.beta", "two"}, graph.nodes[at].inputs[0]);
    doubled.call = graph.nodes[at].call;
    doubled.call_reads = graph.nodes[at].call_reads;
    graph.nodes.insert(graph.nodes.begin() + static_cast<std::ptrdiff_t>(at), doubled);
  }
  graph.initializers["two"] = stored("two", {}, {2});
  std::vector<std::string> notes;
  tell_apart(graph, notes);
  EXPECT_THAT(graph.nodes[3].inputs, ElementsAre("h", "a.alpha"));
  EXPECT_THAT(graph.lost, ElementsAre("b.alpha", "b.beta"));
}

TEST(ToldApart, ACallWhoseOrderNobodyKnowsIsNotGuessed) {
  Graph graph = two_affines("of_my_own");
  std::vector<std::string> notes;
  tell_apart(graph, notes);
  EXPECT_THAT(graph.nodes[3].inputs, ElementsAre("a.beta", "q"));
  EXPECT_THAT(graph.doubtful, ElementsAre("a.alpha", "a.beta"));
  EXPECT_THAT(graph.lost, ElementsAre("b.alpha", "b.beta"));
}

// A linear layer of rows, whose tensors are those of another: nodes in the order of the call.
TEST(ToldApart, ALinearLayerOfTwoNodesIsInOrder) {
  Graph graph =
      graph_of({2, 2},
               {node_of("MatMul", {"x", "val_1"}, "p"), node_of("Add", {"p", "a.bias"}, "h"),
                node_of("MatMul", {"h", "val_1"}, "q"), node_of("Add", {"q", "a.bias"}, "y")},
               {stored("val_1", {2, 2}, {0, 0, 0, 0}), stored("a.bias", {2}, {0, 0})});
  graph.torch = {{"a.weight", true}, {"a.bias", true}, {"b.weight", true}, {"b.bias", true}};
  graph.computed["val_1"] = {{0}, true};
  for (size_t i = 0; i < 4; ++i) {
    graph.nodes[i].call = i < 2 ? "linear" : "linear_1";
    graph.nodes[i].call_reads = i < 2 ? std::vector<size_t>{0, 1} : std::vector<size_t>{2, 3};
  }
  std::vector<std::string> notes;
  tell_apart(graph, notes);
  EXPECT_THAT(graph.nodes[2].inputs, ElementsAre("h", "val_1 of b.weight"));
  EXPECT_THAT(graph.nodes[3].inputs, ElementsAre("q", "b.bias"));
}

TEST(ToldApart, WhatWasOneInTheProgramStaysOne) {
  Graph graph = two_norms({"n.weight", "n.bias"});
  graph.nodes[1].call_reads = {0, 1};
  std::vector<std::string> notes;
  tell_apart(graph, notes);
  EXPECT_THAT(graph.nodes[1].inputs, ElementsAre("h", "n.weight", "n.bias"));
  EXPECT_THAT(notes, IsEmpty());
}

// As where a normalisation without scale and shift is folded into a convolution.
TEST(ToldApart, ABufferIsNoNameOfAParameter) {
  Graph graph = two_norms({"n.weight", "n.bias"});
  graph.torch[2] = {"m.running_mean", false};
  graph.torch[3] = {"m.running_var", false};
  std::vector<std::string> notes;
  tell_apart(graph, notes);
  EXPECT_THAT(graph.nodes[1].inputs, ElementsAre("h", "n.weight", "n.bias"));
  EXPECT_THAT(graph.doubtful, ElementsAre("n.bias", "n.weight"));
  EXPECT_TRUE(import_graph(graph).folded.weights.at("n.weight").doubtful);
}

// Whose variance equals its scale, and whose mean its shift; the second's are the first's, too.
TEST(ToldApart, AFreshBatchNormHasFourTensors) {
  const std::vector<std::string> reads{"x", "n.weight", "n.bias", "n.bias", "n.weight"};
  Graph graph = graph_of(
      {2}, {node_of("BatchNormalization", reads, "h"), node_of("BatchNormalization", reads, "y")},
      {stored("n.weight", {2}, {1, 1}), stored("n.bias", {2}, {0, 0})});
  graph.nodes[1].inputs[0] = "h";
  for (size_t i = 0; i < 2; ++i) {
    const std::string name = i == 0 ? "n" : "m";
    graph.torch.insert(graph.torch.end(), {{name + ".weight", true},
                                           {name + ".bias", true},
                                           {name + ".running_mean", false},
                                           {name + ".running_var", false}});
    graph.nodes[i].call = "batch_norm_" + name;
    graph.nodes[i].call_reads = {4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3};
  }
  const Graph file = graph;
  std::vector<std::string> notes;
  tell_apart(graph, notes);
  EXPECT_THAT(graph.nodes[0].inputs,
              ElementsAre("x", "n.weight", "n.bias", "n.running_mean", "n.running_var"));
  EXPECT_THAT(graph.nodes[1].inputs,
              ElementsAre("h", "m.weight", "m.bias", "m.running_mean", "m.running_var"));
  EXPECT_THAT(graph.lost, IsEmpty());
  const Model model = import_graph(file, {.loss = "mse", .train_batch_norms = true}).model;
  for (const char* name : {"n.weight", "n.bias", "m.weight", "m.bias"})
    EXPECT_EQ(model.value(model.find_value(name)).role, Role::kParameter) << name;
  for (const char* name : {"n.running_mean", "m.running_var"})
    EXPECT_EQ(model.value(model.find_value(name)).role, Role::kState) << name;
}

TEST(ToldApart, WhatTheFileHasOtherwiseIsNotReadInstead) {
  Graph graph = two_norms({"n.weight", "n.bias"});
  std::vector<std::string> notes;
  tell_apart(graph, notes);
  EXPECT_THAT(graph.nodes[1].inputs, ElementsAre("h", "m.weight", "n.bias"));
  EXPECT_THAT(graph.doubtful, ElementsAre("n.bias"));
}

// x [2, 3, 2] of a file for 2 samples, behind a token.
Graph graph_with_token(const std::vector<float>& rows) {
  Graph graph = graph_of({3, 2},
                         {node_of("MatMul", {"x", "w"}, "h"),
                          node_of("Concat", {"expand", "h"}, "y", {{"axis", int64_t{1}}})},
                         {stored("w", {2, 2}, {1, 0, 0, 1}), stored("expand", {2, 1, 2}, rows)});
  graph.inputs[0].shape[0] = {2, ""};
  graph.torch = {{"token", true}};
  graph.computed["expand"] = {{0}, true};
  return graph;
}

TEST(ToldApart, ATokenThatWasRepeatedForTheBatchIsAWeight) {
  const Graph graph = graph_with_token({5, 6, 5, 6});
  const Model model = import_graph(graph, {.loss = "mse"}).model;
  const ValueId token = model.find_value("token");
  ASSERT_GE(token, 0);
  EXPECT_EQ(model.value(token).role, Role::kParameter);
  EXPECT_EQ(model.value(token).spec.shape, (ops::Shape{1, 1, 2}));
  expect_same_answers(graph);
  for (const auto& [rows, only] : {std::pair{std::vector<float>{5, 6, 5, 7}, true},
                                   std::pair{std::vector<float>{5, 6, 5, 6}, false}}) {
    Graph other = graph_with_token(rows);
    other.computed["expand"].only = only;
    repeat_here(other);
    EXPECT_FALSE(other.initializers.contains("token"));
  }
}

// What was repeated along another axis than the batch's, too, or had no axis for that.
TEST(ToldApart, ATokenThatMayHaveHadAnotherShapeIsNoWeight) {
  const auto token_of = [](const ops::Shape& shape, const std::vector<float>& numbers) {
    Graph graph =
        graph_of({2}, {node_of("Add", {"x", "expand"}, "y")}, {stored("expand", shape, numbers)});
    graph.inputs[0].shape[0] = {2, ""};
    graph.torch = {{"token", true}};
    graph.computed["expand"] = {{0}, true};
    repeat_here(graph);
    return graph.initializers.contains("token");
  };
  EXPECT_TRUE(token_of({2, 2, 2}, {5, 6, 5, 7, 5, 6, 5, 7}));
  EXPECT_FALSE(token_of({2, 2, 2}, {5, 6, 5, 6, 5, 6, 5, 6}));
  EXPECT_TRUE(token_of({2, 2, 1, 2}, {5, 6, 5, 7, 5, 6, 5, 7}));
  EXPECT_FALSE(token_of({2, 2, 2, 1}, {5, 6, 5, 6, 5, 6, 5, 6}));
  EXPECT_FALSE(token_of({2, 2}, {5, 6, 5, 6}));
}

// Of a file that says nothing of its program, where the token is only repeated.
TEST(ToldApart, ATokenThatTheFileRepeatsIsAWeight) {
  Graph graph =
      graph_of({3, 2},
               {node_of("Expand", {"cls", "rows"}, "expanded"), node_of("MatMul", {"x", "w"}, "h"),
                node_of("Concat", {"expanded", "h"}, "y", {{"axis", int64_t{1}}})},
               {stored("w", {2, 2}, {1, 0, 0, 1}), stored("cls", {1, 1, 2}, {5, 6}),
                stored_integers("rows", {2, 1, 2})});
  graph.inputs[0].shape[0] = {2, ""};
  const Imported imported = import_graph(graph);
  const ValueId token = imported.model.find_value("cls");
  ASSERT_GE(token, 0);
  EXPECT_EQ(imported.model.value(token).role, Role::kFrozen);
  EXPECT_FALSE(imported.folded.weights.contains("cls"));
  expect_same_answers(graph);
}

}  // namespace
}  // namespace kerf::partitioner::onnx
