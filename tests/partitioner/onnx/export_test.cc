// What is written: weights inside and beside, and what is translated, told again.
#include "partitioner/onnx/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partitioner/onnx/evaluate.h"
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
