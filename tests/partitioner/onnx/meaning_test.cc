// Graphs that could be taken for others: what they mean, and which of their constants are trained
// under which names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "partitioner/onnx/evaluate.h"
#include "partitioner/onnx/weight_file.h"
#include "tests/partitioner/onnx/made_graphs.h"
#include "tests/support/errors.h"

namespace kerf::partitioner::onnx {
namespace {

using testing::Contains;
using testing::HasSubstr;
using tests::error_of;

std::vector<float> answers(const Graph& graph, const ops::TensorLiteral& x) {
  Evaluator evaluator;
  return numbers_of(evaluate(import_graph(graph).model, {{"x", x}}, evaluator).at(0));
}

Role role_in(const Model& model, const std::string& value) {
  const ValueId id = model.find_value(value);
  EXPECT_GE(id, 0) << value;
  return id < 0 ? Role::kActivation : model.value(id).role;
}

std::string import_refusal(const Graph& graph, const ImportOptions& options = {}) {
  const auto error = error_of([&] { import_graph(graph, options); });
  return error ? error->what() : "";
}

TEST(Meaning, APartOfASplitThatNobodyReadsIsOne) {
  for (const int opset : {11, 18}) {
    GraphNode split = node_of("Split", {"x"}, "a", {{"axis", int64_t{1}}});
    split.outputs = {"a", "b", "c"};
    if (opset == 18) split.attributes["num_outputs"] = int64_t{3};
    Graph graph = graph_of({6}, {split, node_of("Add", {"a", "b"}, "y")}, {});
    graph.opset = opset;
    put_in_order(graph);
    EXPECT_THAT(answers(graph, floats({1, 6}, {1, 2, 3, 4, 5, 6})), testing::ElementsAre(4, 6));
  }
}

TEST(Meaning, SumsOfIntegersAreOverTheAxesOfTheInput) {
  const Graph graph =
      graph_of({2},
               {node_of("Reshape", {"list", "square"}, "matrix"),
                node_of("ReduceSum", {"matrix", "first"}, "sums", {{"keepdims", int64_t{0}}}),
                node_of("Cast", {"sums"}, "floats", {{"to", int64_t{1}}}),
                node_of("Add", {"x", "floats"}, "y")},
               {stored_integers("list", {1, 2, 3, 4}), stored_integers("square", {2, 2}),
                stored_integers("first", {0})});
  EXPECT_THAT(answers(graph, floats({1, 2}, {0, 0})), testing::ElementsAre(4, 6));
}

// What the importer makes is named beside the file's names, and stands for none of them.
TEST(Meaning, NamesOfTheFileStayTheFiles) {
  const std::vector<GraphNode> zeros{node_of("Shape", {"x"}, "shape"),
                                     {"z", "ConstantOfShape", {}, {"shape"}, {"z"}},
                                     {"z.row", "Add", {}, {"x", "z.row"}, {"t"}},
                                     node_of("Add", {"t", "z"}, "y")};
  EXPECT_THAT(
      answers(graph_of({2}, zeros, {stored("z.row", {1, 2}, {7, 7})}), floats({1, 2}, {1, 2})),
      testing::ElementsAre(8, 9));
  const std::vector<GraphNode> quantized{
      {"q", "QuantizeLinear", {}, {"x", "half", "zero"}, {"q"}},
      {"dq", "DequantizeLinear", {}, {"q", "half", "zero"}, {"t"}},
      node_of("Add", {"t", "dq.0"}, "y")};
  Graph graph =
      graph_of({2}, quantized, {stored("half", {}, {0.5F}), stored("dq.0", {2}, {100, 200})});
  graph.initializers.emplace("zero", Stored{"zero",
                                            {ops::DType::kUint8, {}},
                                            ops::DType::kUint8,
                                            contents_of("\x80", ops::DType::kUint8)});
  EXPECT_THAT(answers(graph, floats({1, 2}, {1, 2})), testing::ElementsAre(101, 202));
}

TEST(Meaning, OutputsThatAreOneValueAreTwo) {
  Graph graph = graph_of({2},
                         {node_of("Neg", {"x"}, "y"), node_of("Identity", {"y"}, "again"),
                          node_of("Dropout", {"y"}, "third")},
                         {});
  graph.outputs = {"y", "again", "third"};
  const Model model = import_graph(graph, {.answers = true}).model;
  std::set<ValueId> values;
  for (const Result& result : model.results()) values.insert(result.value);
  EXPECT_EQ(values.size(), 3U);
  Evaluator evaluator;
  for (const auto& each : evaluate(model, {{"x", floats({1, 2}, {1, 2})}}, evaluator))
    EXPECT_THAT(numbers_of(each), testing::ElementsAre(-1, -2));
}

TEST(Meaning, ThatACastIsNoneIsSaid) {
  const auto notes_to = [](int64_t type) {
    return import_graph(graph_of({2},
                                 {node_of("Cast", {"x"}, "c", {{"to", type}}),
                                  node_of("Cast", {"c"}, "d", {{"to", int64_t{1}}}),
                                  node_of("Neg", {"d"}, "y")},
                                 {}))
        .notes;
  };
  EXPECT_THAT(notes_to(10), testing::ElementsAre(HasSubstr("casts to float16 are none here")));
  EXPECT_THAT(notes_to(1), testing::IsEmpty());
}

// x [N, 1] picks rows of e.weight [3, 2], which are multiplied with it, turned over.
Graph tied_graph(const std::vector<float>& turned) {
  return graph_of(
      {1},
      {node_of("Cast", {"x"}, "rows", {{"to", int64_t{7}}}),
       node_of("Gather", {"e.weight", "rows"}, "picked"),
       node_of("MatMul", {"picked", "onnx::MatMul_9"}, "y")},
      {stored("e.weight", {3, 2}, {1, 2, 3, 4, 5, 6}), stored("onnx::MatMul_9", {2, 3}, turned)});
}

TEST(Meaning, ATableThatAnExporterTurnedOverIsOneWeight) {
  const Imported tied = import_graph(tied_graph({1, 3, 5, 2, 4, 6}), {.loss = kCrossEntropy});
  EXPECT_EQ(tied.model.find_value("onnx::MatMul_9"), -1);
  EXPECT_EQ(role_in(tied.model, "e.weight"), Role::kParameter);
  EXPECT_EQ(count_of(tied.model, "MatMul"), 0);
  EXPECT_THAT(tied.notes, Contains("onnx::MatMul_9 is e.weight turned over, and stays tied to it"));
  EXPECT_THAT(answers(tied_graph({1, 3, 5, 2, 4, 6}), floats({1, 1}, {2})),
              testing::ElementsAre(17, 39, 61));
  const Imported apart = import_graph(tied_graph({1, 3, 5, 2, 4, 7}), {.loss = kCrossEntropy});
  EXPECT_EQ(role_in(apart.model, "onnx::MatMul_9"), Role::kParameter);
}

// Of nodes on constants a and b, each of one integer: what is left once it is a float.
float integer_of(const std::string& op, ops::DType dtype, int64_t a, int64_t b) {
  const auto constant = [&](int64_t number, const std::string& name) {
    const std::string bytes(reinterpret_cast<const char*>(&number), ops::size_of(dtype));
    return node_of("Constant", {}, name, {{"value", ops::TensorLiteral{dtype, {1}, bytes}}});
  };
  std::vector<std::string> operands{"a"};
  if (op != "Neg") operands.emplace_back("b");
  const Graph graph = graph_of({1},
                               {constant(a, "a"), constant(b, "b"), node_of(op, operands, "c"),
                                node_of("Cast", {"c"}, "wide", {{"to", int64_t{7}}}),
                                node_of("Cast", {"wide"}, "floats", {{"to", int64_t{1}}}),
                                node_of("Add", {"x", "floats"}, "y")},
                               {});
  return answers(graph, floats({1, 1}, {0})).at(0);
}

TEST(Meaning, IntegersGoRoundAsTheirTypeDoes) {
  EXPECT_EQ(integer_of("Mul", ops::DType::kInt32, 1 << 20, 1 << 12), 0);
  EXPECT_EQ(integer_of("Sub", ops::DType::kUint8, 3, 5), 254);
  EXPECT_EQ(integer_of("Neg", ops::DType::kInt8, -128, 0), -128);
  EXPECT_EQ(integer_of("Add", ops::DType::kInt16, 32767, 1), -32768);
  EXPECT_EQ(integer_of("Sub", ops::DType::kInt64, 3, 5), -2);
}

// As PyTorch has it, which wants less than the stride or the dilation.
TEST(Meaning, WhatIsAddedBehindATransposedConvolutionIsNotTaken) {
  const auto answers_with = [](Ints pads, int64_t behind) {
    return answers(graph_of({1, 2},
                            {node_of("ConvTranspose", {"x", "w"}, "y",
                                     {{"dilations", Ints{3}},
                                      {"pads", std::move(pads)},
                                      {"output_padding", Ints{behind}}})},
                            {stored("w", {1, 1, 2}, {1, 10})}),
                   floats({1, 1, 2}, {1, 2}));
  };
  EXPECT_THAT(answers_with({0, 2}, 2), testing::ElementsAre(1, 2, 0, 10, 20));
  EXPECT_THAT(answers_with({1, 2}, 1), testing::ElementsAre(2, 0, 10));
  EXPECT_THAT(answers_with({0, 0}, 2), testing::ElementsAre(1, 2, 0, 10, 20, 0, 0));
  EXPECT_THAT(answers_with({1, 1}, 3), testing::ElementsAre(2, 0, 10, 20, 0, 0));
}

// With a stride of 2, a bias, and two axes: x is [[1, 2]], and windows are of one number.
TEST(Meaning, WhatIsAddedBehindByStridesIsTheBias) {
  const auto answers_with = [](const Ints& behind) {
    return answers(graph_of({1, 1, 2},
                            {node_of("ConvTranspose", {"x", "w", "b"}, "y",
                                     {{"strides", Ints{1, 2}}, {"output_padding", behind}})},
                            {stored("w", {1, 1, 1, 1}, {10}), stored("b", {1}, {5})}),
                   floats({1, 1, 1, 2}, {1, 2}));
  };
  EXPECT_THAT(answers_with({0, 1}), testing::ElementsAre(15, 5, 25, 5));
  EXPECT_THAT(answers_with({0, 3}), testing::ElementsAre(15, 5, 25, 5, 5, 5));
  EXPECT_THAT(answers_with({1, 2}), testing::ElementsAre(15, 5, 25, 5, 5, 5, 5, 5, 5, 5));
}

TEST(Meaning, AZeroIsAnExtentWhereAReshapeOfIntegersSaysSo) {
  const auto graph = [](int64_t zeros) {
    return graph_of(
        {2},
        {node_of("Slice", {"list", "none", "none"}, "nothing"),
         node_of("Unsqueeze", {"nothing", "none"}, "row"),
         node_of("Reshape", {"row", "empty"}, "e", {{"allowzero", zeros}}),
         node_of("Size", {"e"}, "size"), node_of("Cast", {"size"}, "floats", {{"to", int64_t{1}}}),
         node_of("Add", {"x", "floats"}, "y")},
        {stored_integers("list", {1, 2}), stored_integers("none", {0}),
         stored_integers("empty", {0, 5})});
  };
  EXPECT_THAT(answers(graph(1), floats({1, 2}, {1, 2})), testing::ElementsAre(1, 2));
  EXPECT_THAT(import_refusal(graph(0)), HasSubstr("e.node"));
}

Graph slice_to_batch(const std::string& data, int64_t axis) {
  std::vector<GraphNode> nodes{node_of("Shape", {"x"}, "shape"),
                               node_of("Slice", {"shape", "zero", "one"}, "n"),
                               node_of("Slice", {data, "zero", "n", "axis"}, "part")};
  nodes.push_back(node_of("ReduceMean", {"part"}, "mean", {{"axes", Ints{-1}}}));
  if (data == "x") nodes.back() = node_of("Relu", {"part"}, "y");
  if (data != "x") nodes.push_back(node_of("Add", {"x", "mean"}, "y"));
  return graph_of({4}, std::move(nodes),
                  {stored_integers("zero", {0}), stored_integers("one", {1}),
                   stored_integers("axis", {axis}), stored_random("w", {8, 4})});
}

TEST(Meaning, OnlyTheBatchIsSlicedToItsEnd) {
  EXPECT_EQ(import_refusal(slice_to_batch("x", 0)), "");
  for (const Graph& graph : {slice_to_batch("x", 1), slice_to_batch("w", 0)})
    EXPECT_THAT(import_refusal(graph),
                HasSubstr("its ends has 1N + 0 at 0, which depends on how large the batch N is"));
}

// ---- weights read in two ways

Graph square_graph() {
  return graph_of({3},
                  {node_of("MatMul", {"x", "W"}, "h"), node_of("Transpose", {"W"}, "turned"),
                   node_of("MatMul", {"h", "turned"}, "y")},
                  {stored("W", {3, 3}, {0, 1, 0, 0, 0, 2, 3, 0, 0})});
}

TEST(Meaning, ASquareWeightAndItTurnedOverAreTwo) {
  // W W' = diag(1, 4, 9).
  EXPECT_THAT(answers(square_graph(), floats({1, 3}, {1, 1, 1})), testing::ElementsAre(1, 4, 9));
}

TEST(Meaning, AWeightThatIsTurnedOverForOneOfItsReadersStaysOne) {
  for (const Ints& sample : {Ints{3}, Ints{2, 3}}) {
    Graph graph = square_graph();
    graph.inputs.clear();
    add_input(graph, "x", sample);
    const Model model = import_graph(graph, {.loss = kCrossEntropy}).model;
    EXPECT_EQ(model.parameters().size(), 1U);
    EXPECT_EQ(count_of(model, "Gemm"), 1);
  }
}

Graph read_in_two_ways(const Stored& weight) {
  return graph_of({3, 3},
                  {node_of("MatMul", {"x", "W"}, "h"), node_of("Transpose", {"W"}, "turned"),
                   node_of("Add", {"h", "turned"}, "y")},
                  {weight});
}

TEST(Meaning, AWeightReadInTwoWaysIsFrozenOrRefused) {
  // The symmetric one begins as it does when it is turned over.
  for (const Stored& weight :
       {stored_random("W", {3, 3}), stored("W", {3, 3}, {1, 2, 3, 2, 4, 5, 3, 5, 6})}) {
    const Graph graph = read_in_two_ways(weight);
    EXPECT_THAT(import_refusal(graph, {.loss = kCrossEntropy}),
                HasSubstr("W is read in two ways, as [3, 3] and as turned makes it"));
    const Model model = import_graph(graph).model;
    EXPECT_EQ(role_in(model, "W"), Role::kParameter);
    EXPECT_EQ(role_in(model, "W as turned"), Role::kFrozen);
  }
}

TEST(Meaning, FilesOfWeightsHaveOneTensorOfWhatIsReadInTwoWays) {
  const auto expect_form = [](const Model& model, const std::string& value,
                              const std::vector<int>& axes) {
    const auto& form = model.value(model.find_value(value)).stored;
    ASSERT_NE(form, nullptr) << value;
    EXPECT_EQ(form->tensors[0].name, "W") << value;
    EXPECT_EQ(form->axes, axes) << value;
  };
  Graph graph = read_in_two_ways(stored_random("W", {3, 3}));
  const Model model = import_graph(graph).model;
  EXPECT_EQ(model.value(model.find_value("W")).stored, nullptr);
  expect_form(model, "W as turned", {1, 0});
  // The other way around: turned over first.
  graph.nodes = {node_of("Transpose", {"W"}, "turned"), node_of("Add", {"x", "turned"}, "h"),
                 node_of("MatMul", {"h", "W"}, "y")};
  const Model turned_first = import_graph(graph).model;
  expect_form(turned_first, "W", {1, 0});
  expect_form(turned_first, "W as W", {});
}

// ---- names and roles

Graph positions_graph() {
  return graph_of({3, 4},
                  {node_of("MatMul", {"x", "w"}, "h"), node_of("Gather", {"wpe", "places"}, "rows"),
                   node_of("Add", {"h", "rows"}, "e"), node_of("MatMul", {"e", "head"}, "y")},
                  {stored_random("w", {4, 4}), stored_random("wpe", {5, 4}),
                   stored_integers("places", {0, 1, 2}), stored_random("head", {4, 2})});
}

TEST(Meaning, AWeightThatIsPickedOfKeepsItsName) {
  const Imported imported = import_graph(positions_graph());
  EXPECT_EQ(role_in(imported.model, "wpe"), Role::kParameter);
  EXPECT_THAT(imported.notes, Contains(HasSubstr("wpe is kept as rows.node (Gather) makes it")));
  const Model frozen = import_graph(positions_graph(), {.freeze = {"wpe*"}}).model;
  EXPECT_EQ(role_in(frozen, "wpe"), Role::kFrozen);
}

// Rows of features behind a token of their own, and positions added to all.
Graph token_graph(const Ints& repeated) {
  return graph_of({2, 4},
                  {node_of("MatMul", {"x", "w"}, "h"), node_of("Expand", {"token", "shape"}, "t"),
                   node_of("Concat", {"t", "h"}, "rows", {{"axis", int64_t{1}}}),
                   node_of("Add", {"rows", "positions"}, "e"), node_of("MatMul", {"e", "w2"}, "y")},
                  {stored_random("w", {4, 4}), stored_random("token", {1, 1, 4}),
                   stored_integers("shape", repeated), stored_random("positions", {1, 3, 4}),
                   stored_random("w2", {4, 2})});
}

TEST(Meaning, PositionsBehindATokenAreTrainedAndTheTokenWhereThatIsSaid) {
  for (const int64_t batch : {1, 2}) {
    Graph graph = token_graph({batch, 1, 4});
    graph.inputs[0].shape[0] = {batch, ""};
    const Model model = import_graph(graph, {.loss = kCrossEntropy}).model;
    EXPECT_EQ(role_in(model, "positions"), Role::kParameter);
    if (batch == 1) {
      EXPECT_EQ(role_in(model, "token"), Role::kFrozen);
    }
    const Model trained = import_graph(graph, {.train = {"token"}, .loss = kCrossEntropy}).model;
    EXPECT_EQ(role_in(trained, "token"), Role::kParameter);
  }
}

TEST(Meaning, PartsOfAWeightAreNamedAfterIt) {
  Graph graph = positions_graph();
  GraphNode split = node_of("Split", {"both"}, "a", {{"axis", int64_t{0}}});
  split.outputs = {"a", "b"};
  graph.nodes = {split, node_of("MatMul", {"x", "a"}, "h"), node_of("MatMul", {"h", "b"}, "y")};
  graph.initializers.emplace("both", stored_random("both", {8, 4}));
  const Model model = import_graph(graph).model;
  EXPECT_EQ(role_in(model, "both as a"), Role::kParameter);
  EXPECT_EQ(role_in(import_graph(graph, {.freeze = {"both"}}).model, "both as b"), Role::kConstant);
}

TEST(Meaning, AnIdentityOfASharedInitializerIsAWeightOfItsOwn) {
  const auto graph_with = [](std::vector<GraphNode> nodes) {
    return graph_of({3, 4}, std::move(nodes),
                    {stored("ones", {4}, {1, 1, 1, 1}), stored_random("w", {4, 4})});
  };
  const Model model = import_graph(graph_with({node_of("Identity", {"ones"}, "ones2"),
                                               node_of("LayerNormalization", {"x", "ones"}, "h"),
                                               node_of("MatMul", {"h", "w"}, "m"),
                                               node_of("LayerNormalization", {"m", "ones2"}, "y")}))
                          .model;
  for (const char* name : {"ones", "ones2"}) EXPECT_EQ(role_in(model, name), Role::kParameter);
}

TEST(Meaning, RunningStatisticsAreOfOneNormalisation) {
  for (const bool through_identity : {true, false}) {
    const std::string m2 = through_identity ? "m2" : "m";
    const std::string v2 = through_identity ? "v2" : "v";
    std::vector<GraphNode> nodes{node_of("Identity", {"m"}, "m2"), node_of("Identity", {"v"}, "v2"),
                                 node_of("BatchNormalization", {"x", "g", "b", "m", "v"}, "n"),
                                 node_of("Relu", {"n"}, "r"),
                                 node_of("BatchNormalization", {"r", "g2", "b2", m2, v2}, "y")};
    const std::vector<float> two{1, 2};
    Graph graph = graph_of({2}, nodes,
                           {stored("m", {2}, two), stored("v", {2}, two), stored("g", {2}, two),
                            stored("b", {2}, two), stored("g2", {2}, two), stored("b2", {2}, two)});
    const Model model =
        import_graph(graph, {.loss = kCrossEntropy, .train_batch_norms = true}).model;
    std::vector<std::string> states;
    for (const ValueId id : model.kept_values())
      if (model.value(id).role == Role::kState) states.push_back(model.value(id).name);
    EXPECT_THAT(states, testing::SizeIs(4)) << testing::PrintToString(states);
  }
}

TEST(Meaning, ScaleAndShiftOfANormalisationOfAnInputAreTrained) {
  const ops::Attributes last{{"axes", Ints{-1}}};
  const Graph graph =
      graph_of({4},
               {node_of("ReduceMean", {"x"}, "mean", last), node_of("Sub", {"x", "mean"}, "d"),
                node_of("Mul", {"d", "d"}, "square"), node_of("ReduceMean", {"square"}, "v", last),
                node_of("Add", {"v", "epsilon"}, "sum"), node_of("Sqrt", {"sum"}, "root"),
                node_of("Div", {"d", "root"}, "ratio"), node_of("Mul", {"ratio", "g"}, "scaled"),
                node_of("Add", {"scaled", "b"}, "l"), node_of("MatMul", {"l", "w"}, "y")},
               {stored("epsilon", {}, {1e-5F}), stored("g", {4}, {1, 1, 1, 1}),
                stored("b", {4}, {0, 0, 0, 0}), stored_random("w", {4, 3})});
  for (const bool fuse : {true, false})
    for (const char* name : {"g", "b", "w"})
      EXPECT_EQ(role_in(import_graph(graph, {.fuse = fuse}).model, name), Role::kParameter) << name;
}

TEST(Meaning, MasksAreNoWeights) {
  const auto role_of_shift = [](const std::string& op, const std::vector<float>& numbers) {
    const Graph graph =
        graph_of({2, 2}, {node_of("MatMul", {"x", "w"}, "h"), node_of(op, {"h", "shift"}, "y")},
                 {stored_random("w", {2, 2}), stored("shift", {2, 2}, numbers)});
    return role_in(import_graph(graph, {.fuse = false}).model, "shift");
  };
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(role_of_shift("Mul", {1, 0, 1, 1}), Role::kFrozen);
  EXPECT_EQ(role_of_shift("Add", {0, -inf, 0, 0}), Role::kFrozen);
  EXPECT_EQ(role_of_shift("Add", {0, -3e38F, 0, 0}), Role::kFrozen);
  EXPECT_EQ(role_of_shift("Mul", {1, 1, 1, 1}), Role::kParameter);
  EXPECT_EQ(role_of_shift("Add", {0, 0, 0, 0}), Role::kParameter);
  EXPECT_EQ(role_of_shift("Add", {0.5F, -inf, 0.25F, 0}), Role::kParameter);
}

TEST(Meaning, WhatIsAddedToAProductOfTwoThatAreComputedIsNoWeight) {
  const Graph graph =
      graph_of({4, 4},
               {node_of("Transpose", {"x"}, "t", {{"perm", Ints{0, 2, 1}}}),
                node_of("MatMul", {"x", "t"}, "scores"), node_of("Add", {"scores", "places"}, "y")},
               {stored_random("places", {4, 4})});
  EXPECT_EQ(role_in(import_graph(graph).model, "places"), Role::kFrozen);
}

// ---- fusions that would change something

TEST(Meaning, AScaleThatTwoNormalisationsShareStays) {
  const Graph graph =
      graph_of({2, 3, 3},
               {node_of("BatchNormalization", {"x", "g", "b", "m", "v"}, "n"),
                node_of("Mul", {"n", "s"}, "scaled"), node_of("Add", {"scaled", "t"}, "o"),
                node_of("BatchNormalization", {"o", "g", "b", "m", "v"}, "y")},
               {stored("g", {2}, {1.5F, 0.5F}), stored("b", {2}, {0.25F, -1}),
                stored("m", {2}, {0, 1}), stored("v", {2}, {0.5F, 2}),
                stored("s", {2, 1, 1}, {2, -3}), stored("t", {2, 1, 1}, {1, 0})});
  EXPECT_EQ(import_graph(graph).model.nodes(), 4);
  expect_same_answers(graph);
}

TEST(Meaning, AConstantOfMoreAxesGivesThemToAGelu) {
  Graph graph =
      graph_of({6},
               {node_of("Div", {"x", "root"}, "r"), node_of("Erf", {"r"}, "e"),
                node_of("Add", {"e", "one"}, "bell"), node_of("Mul", {"x", "bell"}, "twice"),
                node_of("Mul", {"twice", "half"}, "y")},
               {stored("root", {}, {1.41421356F}), stored("one", {}, {1}),
                stored("half", {1, 1, 1}, {0.5F})});
  EXPECT_EQ(import_graph(graph).model.nodes(), 5);
  expect_same_answers(graph);
}

}  // namespace
}  // namespace kerf::partitioner::onnx
