// What becomes of ONNX files, and what is refused.
#include "partitioner/onnx/import.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>

#include "partitioner/cut.h"
#include "partitioner/onnx/evaluate.h"
#include "partitioner/onnx/read.h"
#include "partitioner/onnx/weight_file.h"
#include "runtime/open_file.h"
#include "tests/partitioner/onnx/made_files.h"
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
  const Imported imported = import_file(model_file("shapes.onnx"), {.fuse = false});
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
  EXPECT_THAT(imported.notes,
              testing::Contains(HasSubstr("Softmax softmax is joined with the loss")));
}

TEST(Import, RefusesAnAxisThatOnlyHasAName) {
  Graph graph = read_graph(model_file("shapes.onnx"));
  graph.inputs[0].shape[1] = {-1, "T"};
  const auto error = error_of([&] { import_graph(graph); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("input x: its axis 1 is as long as T says; say it"));
  EXPECT_EQ(import_graph(graph, {.dims = {{"T", 6}}, .fuse = false}).model.nodes(), 4);
}

TEST(Import, AWholeThatIsTakenForABatchIsRefusedByName) {
  Graph graph = graph_of({16}, {node_of("MatMul", {"x", "w"}, "y")}, {stored_random("w", {16, 4})});
  graph.inputs[0].shape = {{16, ""}};
  const auto error = error_of([&] { import_graph(graph); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("y.node (MatMul"));
  EXPECT_THAT(error->what(), HasSubstr("the first axis of every input stands: that of x, of 16"));
  graph.inputs[0].shape.clear();
  const auto scalar = error_of([&] { import_graph(graph); });
  ASSERT_TRUE(scalar);
  EXPECT_THAT(scalar->what(), HasSubstr("input x: it is a scalar, but the first axis"));
}

TEST(Import, WholeInputsHaveNoPlan) {
  Graph graph = graph_of({16}, {node_of("MatMul", {"x", "w"}, "y")}, {stored_random("w", {16, 4})});
  graph.inputs[0].shape = {{16, ""}};
  const Model model = import_graph(graph, {.whole_inputs = true}).model;
  const auto error = error_of([&] { make_plan(model, PlanRequest{}, *hold_everything()); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("its input x [16] is a whole without a batch"));
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

// Of one that reads w from there.
std::string complaint_of_data_at(const TemporaryFolder& folder, const std::string& location) {
  std::filesystem::create_directories(folder / "inner");
  write(folder / "secret", std::string(64, 's'));
  write(folder / "inner/model.onnx",
        model_message({node_message("Add", {"x", "w"}, "y")}, {{"w", {2}, location}}));
  const auto error = error_of([&] { read_graph(folder / "inner/model.onnx"); });
  return error ? error->what() : "";
}

TEST(Read, ExternalDataAreAPathWithinTheFolder) {
  const TemporaryFolder folder;
  const auto outside = HasSubstr("lie outside the model's folder");
  const auto no_path = HasSubstr("must be a path within the model's folder");
  EXPECT_THAT(complaint_of_data_at(folder, "../secret"), outside);
  EXPECT_THAT(complaint_of_data_at(folder, "./../secret"), outside);
  EXPECT_THAT(complaint_of_data_at(folder, (folder / "secret").string()), no_path);
  EXPECT_THAT(complaint_of_data_at(folder, std::string("w\0.bin", 6)), no_path);
  EXPECT_THAT(complaint_of_data_at(folder, ""), no_path);
  EXPECT_THAT(complaint_of_data_at(folder, "."), outside);
  std::filesystem::create_symlink("..", folder / "inner/up");
  EXPECT_THAT(complaint_of_data_at(folder, "up/secret"), outside);
  write(folder / "inner/w.bin", std::string(64, 'w'));
  EXPECT_EQ(complaint_of_data_at(folder, "w.bin"), "");
  EXPECT_EQ(complaint_of_data_at(folder, "up/inner/w.bin"), "") << "a link back";
}

// Its file has no name any more: where a link leads to it, nothing else may be.
TEST(Read, AModelThatWasDeletedHasItsDataBesideTheLink) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "inner");
  write(folder / "secret", std::string(64, 's'));
  write(folder / "model.onnx",
        model_message({node_message("Add", {"x", "w"}, "y")}, {{"w", {2}, "../secret"}}));
  const runtime::OpenFile model(::open((folder / "model.onnx").c_str(), O_RDONLY));
  std::filesystem::remove(folder / "model.onnx");
  std::filesystem::create_symlink(format("/proc/self/fd/{}", model.number()),
                                  folder / "inner/link.onnx");
  const auto error = error_of([&] { read_graph(folder / "inner/link.onnx"); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("lie outside the model's folder"));
}

TEST(Read, TensorsMayShareBytes) {
  const TemporaryFolder folder;
  const float numbers[] = {1, 2, 3};
  write(folder / "d", {reinterpret_cast<const char*>(numbers), sizeof numbers});
  write(folder / "model.onnx",
        model_message({node_message("Add", {"x", "a"}, "h"), node_message("Add", {"h", "b"}, "y")},
                      {{"a", {2}, "d", 0}, {"b", {2}, "d", 4}}));
  const Graph graph = read_graph(folder / "model.onnx");
  EXPECT_EQ(numbers_of(literal_of("a", graph.initializers.at("a").spec,
                                  *graph.initializers.at("a").contents, 64)),
            (std::vector<float>{1, 2}));
  EXPECT_EQ(numbers_of(literal_of("b", graph.initializers.at("b").spec,
                                  *graph.initializers.at("b").contents, 64)),
            (std::vector<float>{2, 3}));
}

TEST(Import, AWeightMayNotBeCalledAsTheMetadataOfItsFile) {
  const auto error = error_of([&] {
    import_graph(graph_of({4}, {node_of("MatMul", {"x", "__metadata__"}, "y")},
                          {stored_random("__metadata__", {4, 4})}));
  });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("a weight is called __metadata__"));
}

// As the indices of a buffer that something is picked by.
TEST(Import, IntegersThatAreConstantsAreListed) {
  const Imported imported =
      import_graph(graph_of({3},
                            {node_of("Gather", {"x", "perm"}, "g", {{"axis", int64_t{1}}}),
                             node_of("MatMul", {"g", "w"}, "y")},
                            {stored_integers("perm", {2, 0, 1}), stored_random("w", {3, 3})}));
  ASSERT_TRUE(imported.folded.weights.contains("perm"));
  EXPECT_EQ(imported.folded.weights.at("perm").spec.dtype, ops::DType::kInt64);
  EXPECT_FALSE(imported.folded.weights.contains("w"));
}

TEST(Import, ManyTransposesAreOneNote) {
  std::vector<GraphNode> nodes;
  std::vector<Stored> weights;
  std::string last = "x";
  for (int i = 0; i < 9; ++i) {
    weights.push_back(stored_random(format("w{}", i), {4, 4}));
    nodes.push_back(
        node_of("Transpose", {weights.back().name}, format("t{}", i), {{"perm", Ints{1, 0}}}));
    nodes.push_back(node_of("MatMul", {last, format("t{}", i)}, i == 8 ? "y" : format("h{}", i)));
    last = nodes.back().outputs[0];
  }
  const auto notes = import_graph(graph_of({4}, nodes, weights)).notes;
  EXPECT_THAT(notes, testing::ElementsAre(HasSubstr("w0 is kept with its axes turned over")));
  EXPECT_THAT(notes.front(), HasSubstr(", and 8 others likewise"));
}

Graph product_and(const std::string& op, int64_t axis) {
  return graph_of({4, 6},
                  {node_of("MatMul", {"x", "w"}, "z"), node_of(op, {"z"}, "y", {{"axis", axis}})},
                  {stored_random("w", {6, 3})});
}

TEST(Import, ASoftmaxIsJoinedWhereItIsOverTheClasses) {
  const Imported joined = import_graph(product_and("Softmax", 2), {.loss = kCrossEntropy});
  EXPECT_EQ(joined.model.find_value("y"), -1);
  EXPECT_EQ(joined.model.results().at(0).name, "z");
  EXPECT_THAT(joined.notes, testing::Contains(testing::HasSubstr("an export gives z")));
  for (const std::string op : {"Softmax", "LogSoftmax"}) {
    const auto error = error_of([&] { import_graph(product_and(op, 1), {.loss = kCrossEntropy}); });
    ASSERT_TRUE(error);
    EXPECT_THAT(error->what(), testing::HasSubstr("axis 1 of [N, 4, 3]"));
  }
  Graph old = product_and("Softmax", 1);
  old.opset = 11;  // over all of a sample
  EXPECT_TRUE(error_of([&] { import_graph(old, {.loss = kCrossEntropy}); }));
}

// Made of integers, or given by the node: as those of files are, whatever reads them.
TEST(Import, ConstantsOfOtherWidthsAreFloat32) {
  const Tensors x{{"x", ramp({2, 2})}};
  const auto sum = [&](std::vector<GraphNode> nodes) {
    nodes.push_back(node_of("Add", {"x", "c"}, "y"));
    Evaluator evaluator;
    const Graph graph = graph_of({2}, std::move(nodes), {stored_integers("n", {3, 5})});
    return numbers_of(evaluate(import_graph(graph).model, x, evaluator)[0]);
  };
  std::vector<float> expected = numbers_of(x.at("x"));
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += i % 2 == 0 ? 3 : 5;
  for (const int64_t type : {1, 10, 11, 16})
    EXPECT_EQ(sum({node_of("Cast", {"n"}, "c", {{"to", type}})}), expected) << type;
  const double numbers[] = {3, 5};
  const ops::TensorLiteral doubles{
      ops::DType::kFloat64, {2}, {reinterpret_cast<const char*>(numbers), sizeof(numbers)}};
  EXPECT_EQ(sum({node_of("Constant", {}, "c", {{"value", doubles}})}), expected);
}

TEST(Import, ASoftmaxOverAnAxisThatIsNotThereIsRefused) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const int64_t axis : {int64_t{-100}, int64_t{3}, -(int64_t{1} << 40), kMost, -kMost - 1}) {
    Graph old = product_and("Softmax", axis);
    old.opset = 11;
    const auto error = error_of([&] { import_graph(old, {.loss = kCrossEntropy}); });
    ASSERT_TRUE(error) << axis;
    EXPECT_THAT(error->what(), testing::HasSubstr("does not have"));
  }
}

// As networks end in a pool over the whole picture.
TEST(Import, ASoftmaxIsJoinedThoughAxesOfOneAreBehindTheClasses) {
  for (const int64_t height : {1, 2}) {
    Graph old = graph_of({3, height, 6},
                         {node_of("MatMul", {"x", "w"}, "z"),
                          node_of("Softmax", {"z"}, "y", {{"axis", int64_t{1}}})},
                         {stored_random("w", {6, 1})});
    old.opset = 11;  // over the classes and all that is behind
    const auto error = error_of([&] {
      const Imported joined = import_graph(old, {.loss = kCrossEntropy});
      EXPECT_EQ(joined.model.results().at(0).name, "z");
    });
    EXPECT_EQ(error.has_value(), height > 1);
  }
}

TEST(Import, WhatFitsNothingIsRefused) {
  Graph graph = product_and("Softmax", 2);
  graph.inputs[0].shape[0] = {-1, "N"};
  graph.inputs[0].shape[1] = {-1, "T"};
  const std::map<std::string, int64_t> right{{"T", 4}};
  EXPECT_FALSE(error_of([&] { import_graph(graph, {.dims = right, .freeze = {"w*"}}); }));
  const auto freeze = error_of([&] { import_graph(graph, {.dims = right, .freeze = {"v*"}}); });
  ASSERT_TRUE(freeze);
  EXPECT_THAT(freeze->what(), testing::HasSubstr("--freeze \"v*\" fits the name of none"));
  EXPECT_TRUE(error_of([&] { import_graph(graph, {.dims = right, .train = {"v*"}}); }));
  const auto dim = error_of([&] { import_graph(graph, {.dims = {{"T", 4}, {"FOO", 3}}}); });
  ASSERT_TRUE(dim);
  EXPECT_THAT(dim->what(), testing::HasSubstr("no axis of its inputs is named FOO"));
  const auto batch = error_of([&] { import_graph(graph, {.dims = {{"T", 4}, {"N", 3}}}); });
  ASSERT_TRUE(batch);
  EXPECT_THAT(batch->what(), testing::HasSubstr("N is its batch"));
}

TEST(Import, AnInputThatNothingReadsIsLeftOut) {
  Graph graph = product_and("Softmax", 2);
  add_input(graph, "idle", {2});
  const Imported imported = import_graph(graph);
  EXPECT_EQ(imported.model.find_value("idle"), -1);
  EXPECT_THAT(imported.notes, testing::Contains(testing::HasSubstr("input idle has no part")));
  EXPECT_FALSE(error_of([&] { imported.model.check(); }));
}

}  // namespace
}  // namespace kerf::partitioner::onnx
