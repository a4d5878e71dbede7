// What is written: weights inside and beside, and what is translated, told again.
#include "partitioner/onnx/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partitioner/onnx/evaluate.h"
#include "partitioner/onnx/read.h"
#include "partitioner/zoo.h"
#include "tests/partitioner/onnx/made_graphs.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::partitioner::onnx {
namespace {

using tests::error_of;
using tests::TemporaryFolder;

std::string bytes_of_value(const Value& value) {
  std::string bytes(value.spec.bytes(0), '\0');
  value.contents->read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

Model wide() {
  return import_graph(graph_of({40},
                               {node_of("MatMul", {"x", "w"}, "product"),
                                node_of("Add", {"product", "b"}, "y")},
                               {stored_random("w", {40, 32}), stored_random("b", {32})}))
      .model;
}

// Files and folders.
size_t files_in(const std::filesystem::path& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                           std::filesystem::directory_iterator()));
}

TEST(Export, WeightsLieBesideAFileThatWouldBeTooLarge) {
  const Model model = wide();
  Evaluator evaluator;
  const Tensors inputs{{"x", ramp({3, 40})}};
  const auto wanted = evaluate(model, inputs, evaluator);
  for (const size_t most : {size_t{8192}, size_t{4096}}) {
    const TemporaryFolder folder;
    const auto path = folder / "wide.onnx";
    export_file(model, bytes_of_value, path, {.most_bytes = most});
    const bool beside = most < 40 * 32 * sizeof(float);
    EXPECT_EQ(files_in(path.parent_path()), beside ? 2U : 1U);
    EXPECT_LT(std::filesystem::file_size(path), most);
    EXPECT_EQ(evaluate(import_file(path).model, inputs, evaluator), wanted);
  }
}

TEST(Export, OutputsThatAreTheSameForAllInputsAreThere) {
  Graph graph = graph_of({4}, {node_of("Neg", {"x"}, "y"), node_of("Identity", {"w"}, "c")},
                         {stored("w", {2}, {3, 4})});
  graph.outputs = {"y", "c"};
  const Imported imported = import_graph(graph);
  const TemporaryFolder folder;
  export_file(imported.model, bytes_of_value, folder / "both.onnx",
              {.constants = imported.constants});
  const Imported again = import_file(folder / "both.onnx");
  ASSERT_EQ(again.model.results().size(), 1U);
  EXPECT_EQ(again.model.results()[0].name, "y");
  EXPECT_THAT(numbers_of(again.constants.at("c")), testing::ElementsAre(3, 4));
}

// ONNX Runtime takes no mask that is repeated over queries, which the export repeats itself.
TEST(Export, AMaskHasAllPairsOfQueryAndKey) {
  Graph graph = graph_of(
      {5, 4},
      {node_of("Transpose", {"x"}, "k", {{"perm", Ints{0, 2, 1}}}),
       node_of("MatMul", {"x", "k"}, "scores"), node_of("Add", {"scores", "mask"}, "masked"),
       node_of("Softmax", {"masked"}, "weights", {{"axis", int64_t{-1}}}),
       node_of("MatMul", {"weights", "x"}, "y")},
      {});
  add_input(graph, "mask", {1, 5});
  const Model model = import_graph(graph).model;
  ASSERT_EQ(count_of(model, "Attention"), 1);
  const TemporaryFolder folder;
  export_file(model, bytes_of_value, folder / "masked.onnx");
  const Model again = import_file(folder / "masked.onnx").model;
  EXPECT_EQ(count_of(again, "Expand"), 1);
  Evaluator evaluator;
  const Tensors inputs{{"x", ramp({3, 5, 4})}, {"mask", ramp({3, 1, 5})}};
  EXPECT_EQ(evaluate(again, inputs, evaluator), evaluate(model, inputs, evaluator));
}

// What was written of it.
Graph written(const Graph& graph) {
  const TemporaryFolder folder;
  export_file(import_graph(graph).model, bytes_of_value, folder / "a.onnx");
  return read_graph(folder / "a.onnx");
}

TEST(Export, InputsOfAttributesHaveOnnxsKinds) {
  const Graph top =
      written(graph_of({5}, {node_of("TopK", {"x", "k"}, "y")}, {stored_integers("k", {2})}));
  EXPECT_EQ(top.initializers.at(top.nodes.at(0).inputs.at(1)).spec,
            (ops::ValueSpec{ops::DType::kInt64, {1}}));
  Graph graph = graph_of({5}, {node_of("Clip", {"x", "least"}, "y")}, {});
  graph.inputs[0].dtype = ops::DType::kInt32;
  Stored least = stored_integers("least", {-3});
  least.spec.shape = {};
  graph.initializers["least"] = least;
  const Graph clip = written(graph);
  EXPECT_EQ(clip.initializers.at(clip.nodes.at(0).inputs.at(1)).spec,
            (ops::ValueSpec{ops::DType::kInt32, {}}));
}

TEST(Export, IsOfTheOpsetThatHasItsAttributes) {
  ops::Attributes window{{"kernel_shape", Ints{2, 2}}};
  Graph graph = graph_of({1, 8, 8}, {node_of("AveragePool", {"x"}, "y", window)}, {});
  graph.opset = 19;
  EXPECT_EQ(written(graph).opset, 18);
  graph.nodes[0].attributes["dilations"] = Ints{2, 2};
  EXPECT_EQ(written(graph).opset, 19);
  Graph pad = graph_of({4}, {node_of("Pad", {"x"}, "y", {{"pads", Ints{0, 1, 0, 1}}})}, {});
  pad.opset = 10;  // which has them as an attribute
  pad.nodes[0].attributes["mode"] = std::string("edge");
  EXPECT_EQ(written(pad).opset, 18);
  pad.nodes[0].attributes["mode"] = std::string("wrap");
  EXPECT_EQ(written(pad).opset, 19);
  Graph gelu = graph_of({4}, {node_of("Gelu", {"x"}, "y")}, {});
  gelu.opset = 20;
  EXPECT_EQ(written(gelu).opset, 20);
}

TEST(Export, RefusesWhatIsKerfsOwn) {
  const Graph graph =
      graph_of({3, 8, 8}, {node_of("Conv", {"x", "w"}, "c"), node_of("Relu", {"c"}, "y")},
               {stored_random("w", {4, 3, 3, 3})});
  const Model model = import_graph(graph, {.answers = true}).model;
  ASSERT_EQ(count_of(model, "FusedConv"), 1);
  const TemporaryFolder folder;
  const auto error = error_of([&] { export_file(model, bytes_of_value, folder / "a.onnx"); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), testing::HasSubstr("(FusedConv): ONNX has no such operator"));
}

TEST(Export, ScoresOfLanguageModelsHaveTheirClassesLast) {
  const Model model = make_zoo_model("lstm-lm");
  EXPECT_EQ(model.value(model.node(model.loss()).inputs[0]).spec.shape,
            (ops::Shape{ops::kBatch, 32, 16}));
  const TemporaryFolder folder;
  export_file(
      model, [](const Value& value) { return std::string(value.spec.bytes(0), '\0'); },
      folder / "lm.onnx");
  const Model plain = import_file(folder / "lm.onnx").model;
  EXPECT_EQ(plain.value(plain.results().at(0).value).spec.shape, (ops::Shape{ops::kBatch, 16, 32}));
  const Model trained = import_file(folder / "lm.onnx", {.loss = kCrossEntropy}).model;
  EXPECT_EQ(trained.value(trained.node(trained.loss()).inputs[1]).spec.shape,
            (ops::Shape{ops::kBatch, 16}));
}

TEST(Export, RecurrentNetworksHaveStepsFirst) {
  const Graph graph = graph_of({3, 4},
                               {node_of("LSTM", {"x", "w", "r"}, "y",
                                        {{"hidden_size", int64_t{5}}, {"layout", int64_t{1}}})},
                               {stored_random("w", {1, 20, 4}), stored_random("r", {1, 20, 5})});
  const TemporaryFolder folder;
  const Model model = import_graph(graph).model;
  export_file(model, bytes_of_value, folder / "lstm.onnx");
  for (const GraphNode& node : read_graph(folder / "lstm.onnx").nodes) {
    EXPECT_FALSE(node.attributes.contains("layout"));
    EXPECT_FALSE(node.name.ends_with("_2")) << "ONNX Runtime wants nodes of unlike names";
  }
  const Model again = import_file(folder / "lstm.onnx").model;
  EXPECT_EQ(count_of(again, "Transpose"), 2);
  Evaluator evaluator;
  const Tensors inputs{{"x", ramp({2, 3, 4})}};
  EXPECT_EQ(evaluate(again, inputs, evaluator), evaluate(model, inputs, evaluator));
}

TEST(Export, NothingIsCalledAsAnOutput) {
  Graph graph =
      graph_of({5}, {node_of("Relu", {"x"}, "a"), node_of("Sigmoid", {"a"}, "a.output")}, {});
  graph.outputs = {"a.output"};
  const Graph out = written(graph);
  EXPECT_EQ(out.outputs, std::vector<std::string>{"a.output"});
  EXPECT_NE(out.nodes.at(0).outputs, out.outputs);
}

TEST(Export, OtherWeightsLieInAnotherFile) {
  const TemporaryFolder folder;
  const Model model = wide();
  export_file(model, bytes_of_value, folder / "wide.onnx", {.data_beside = true});
  const auto zeros = [](const Value& value) { return std::string(value.spec.bytes(0), '\0'); };
  export_file(model, zeros, folder / "wide.onnx", {.data_beside = true});
  EXPECT_EQ(files_in((folder / "wide.onnx").parent_path()), 3U);
}

TEST(Export, RefusesAMessageThatIsTooLargeWithoutItsWeights) {
  const TemporaryFolder folder;
  const auto error =
      error_of([&] { export_file(wide(), bytes_of_value, folder / "a.onnx", {.most_bytes = 64}); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), testing::HasSubstr("without its weights"));
  EXPECT_EQ(files_in((folder / "a.onnx").parent_path()), 0U);
}

}  // namespace
}  // namespace kerf::partitioner::onnx
