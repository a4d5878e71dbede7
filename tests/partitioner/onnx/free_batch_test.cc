// Graphs of files that fix the batch: they answer any number of samples as the file answers its
// own, or say why not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partitioner/onnx/evaluate.h"
#include "tests/partitioner/onnx/made_graphs.h"
#include "tests/support/errors.h"

namespace kerf::partitioner::onnx {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using tests::error_of;

constexpr int64_t kBlocks = 3;  // batches of the file

Graph with_batch(int64_t batch, Graph graph) {
  for (GraphInput& input : graph.inputs) input.shape[0] = {batch, ""};
  return graph;
}

ops::TensorLiteral block_of(const ops::TensorLiteral& all, int64_t block, int64_t rows) {
  ops::Shape shape = all.shape;
  const size_t bytes = all.bytes.size() / static_cast<size_t>(shape[0] / rows);
  shape[0] = rows;
  return {all.dtype, shape, all.bytes.substr(static_cast<size_t>(block) * bytes, bytes)};
}

// That all samples at once get the answers that the file as it is gives to so many at a time.
void expect_free(const Graph& graph) {
  const int64_t batch = graph.inputs[0].shape[0].extent;
  Ints extents{kBlocks * batch};
  for (size_t i = 1; i < graph.inputs[0].shape.size(); ++i)
    extents.push_back(graph.inputs[0].shape[i].extent);
  const ops::TensorLiteral x = ramp(ops::Shape(extents));
  Evaluator evaluator;
  const ops::TensorLiteral all = evaluate(import_graph(graph).model, {{"x", x}}, evaluator).at(0);
  ASSERT_EQ(all.shape[0], kBlocks * batch);
  const Model as_it_is = import_graph(graph, {.whole_inputs = true}).model;
  for (int64_t block = 0; block < kBlocks; ++block) {
    const auto wanted = evaluate(as_it_is, {{"x", block_of(x, block, batch)}}, evaluator).at(0);
    const std::vector<float> numbers = numbers_of(wanted);
    const std::vector<float> got = numbers_of(block_of(all, block, batch));
    ASSERT_EQ(got.size(), numbers.size());
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], numbers[i], 1e-5) << "block " << block << ", at " << i;
  }
}

std::string import_failure(const Graph& graph) {
  const auto error = error_of([&] { import_graph(graph); });
  return error ? error->what() : "";
}

Stored stored_integer(const std::string& name, int64_t integer) {
  Stored one = stored_integers(name, {integer});
  one.spec.shape = {};
  return one;
}

Stored repeated(const std::string& name, ops::Shape shape, int axis, int64_t times) {
  const auto one = numbers_of(ramp(shape));
  int64_t outer = 1;
  for (int i = 0; i < axis; ++i) outer *= shape[i];
  const auto piece = static_cast<std::ptrdiff_t>(one.size()) / outer;
  std::vector<float> all;
  for (int64_t at = 0; at < outer; ++at)
    for (int64_t i = 0; i < times; ++i)
      all.insert(all.end(), one.begin() + at * piece, one.begin() + (at + 1) * piece);
  shape[axis] *= times;
  return stored(name, shape, all);
}

Graph class_token(int64_t batch, const Stored& token) {
  return with_batch(
      batch,
      graph_of({3, 4}, {node_of("Concat", {"token", "x"}, "y", {{"axis", int64_t{1}}})}, {token}));
}

TEST(FreeBatch, AClassTokenIsForEverySample) {
  for (const int64_t batch : {1, 2, 3})
    expect_free(class_token(batch, repeated("token", {1, 1, 4}, 0, batch)));
}

TEST(FreeBatch, RowsThatDifferAreRefused) {
  EXPECT_THAT(import_failure(class_token(2, stored_random("token", {2, 1, 4}))),
              AllOf(HasSubstr("node y.node (Concat"),
                    HasSubstr("token is [2, 1, 4], with numbers for each of the 2 samples"),
                    HasSubstr("dynamic_axes")));
}

Graph recurrence(int64_t batch, const std::string& op, int64_t gates) {
  std::vector<std::string> inputs{"turned", "w", "r", "b", "", "h"};
  if (op == "LSTM") inputs.emplace_back("c");
  Graph graph =
      graph_of({5, 3},
               {node_of("Transpose", {"x"}, "turned", {{"perm", Ints{1, 0, 2}}}),
                node_of(op, inputs, "all", {{"hidden_size", int64_t{2}}}),
                node_of("Squeeze", {"all", "one"}, "rows"),
                node_of("Transpose", {"rows"}, "y", {{"perm", Ints{1, 0, 2}}})},
               {stored_random("w", {1, gates * 2, 3}), stored_random("r", {1, gates * 2, 2}),
                stored_random("b", {1, gates * 4}), repeated("h", {1, 1, 2}, 1, batch),
                repeated("c", {1, 1, 2}, 1, batch), stored_integers("one", {1})});
  return with_batch(batch, graph);
}

TEST(FreeBatch, ARecurrenceBeginsEverySampleAlike) {
  for (const int64_t batch : {1, 2}) {
    expect_free(recurrence(batch, "LSTM", 4));
    expect_free(recurrence(batch, "GRU", 3));
  }
}

// As PyTorch's older exporter writes it.
TEST(FreeBatch, AStateThatIsRepeatedToTheBatchBeginsEverySampleAlike) {
  Graph graph = recurrence(2, "GRU", 3);
  GraphNode gru = graph.nodes[1];
  gru.inputs[5] = "expanded";
  graph.nodes.erase(graph.nodes.begin() + 1);
  graph.nodes.insert(
      graph.nodes.begin() + 1,
      {node_of("Shape", {"turned"}, "shape"), node_of("Gather", {"shape", "one"}, "n"),
       node_of("Concat", {"one", "n", "two"}, "target", {{"axis", int64_t{0}}}),
       node_of("Expand", {"h", "target"}, "expanded"), gru});
  graph.initializers.emplace("two", stored_integers("two", {2}));
  expect_free(graph);
}

TEST(FreeBatch, WhatIsAddedForEverySampleOfTheFileIsAddedToAll) {
  for (const int64_t batch : {1, 2}) {
    for (const char* op : {"Add", "MatMul"})
      expect_free(with_batch(batch, graph_of({3, 3}, {node_of(op, {"x", "k"}, "y")},
                                             {repeated("k", {1, 3, 3}, 0, batch)})));
    expect_free(
        with_batch(batch, graph_of({3}, {node_of("Gemm", {"x", "w", "k"}, "y")},
                                   {stored_random("w", {3, 3}), repeated("k", {1, 3}, 0, batch)})));
  }
}

TEST(FreeBatch, WhatIsRepeatedToTheShapeOfTheFileIsToThatOfAll) {
  for (const int64_t batch : {1, 2})
    expect_free(with_batch(batch, graph_of({1, 3}, {node_of("Expand", {"x", "target"}, "y")},
                                           {stored_integers("target", {batch, 4, 3})})));
}

// ---- the batch within an axis

// Positions first, heads beside the batch, and rows of positions and batch, as PyTorch's
// MultiheadAttention has them: [N, 5, 4] to [5, N, 4], scores [2N, 5, 5], [5N, 4] and back. `mask`
// is added to scores.
Graph attention_graph(int64_t batch, const Stored& mask) {
  const Ints first{1, 0, 2};
  return with_batch(
      batch, graph_of({5, 4},
                      {node_of("Transpose", {"x"}, "t", {{"perm", first}}),
                       node_of("Reshape", {"t", "heads"}, "h"),
                       node_of("Transpose", {"h"}, "q", {{"perm", first}}),
                       node_of("Transpose", {"h"}, "k", {{"perm", Ints{1, 2, 0}}}),
                       node_of("MatMul", {"q", "k"}, "s"), node_of("Add", {"s", "mask"}, "masked"),
                       node_of("Softmax", {"masked"}, "p", {{"axis", int64_t{-1}}}),
                       node_of("MatMul", {"p", "q"}, "o"),
                       node_of("Transpose", {"o"}, "back", {{"perm", first}}),
                       node_of("Reshape", {"back", "rows"}, "flat"),
                       node_of("Gemm", {"flat", "w"}, "projected"),
                       node_of("Reshape", {"projected", "apart"}, "tokens"),
                       node_of("Transpose", {"tokens"}, "y", {{"perm", first}})},
                      {stored_integers("heads", {5, 2 * batch, 2}),
                       stored_integers("rows", {5 * batch, 4}),
                       stored_integers("apart", {5, batch, 4}), stored_random("w", {4, 4}), mask}));
}

TEST(FreeBatch, HeadsAndPositionsAreMergedWithAnyBatch) {
  for (const int64_t batch : {1, 2, 3}) {
    expect_free(attention_graph(batch, repeated("mask", {1, 5, 5}, 0, 2 * batch)));
    if (batch == 1) continue;
    const Graph differs = attention_graph(batch, stored_random("mask", {2 * batch, 5, 5}));
    EXPECT_THAT(import_failure(differs), HasSubstr("mask is "));
  }
}

TEST(FreeBatch, ANumberForEachHeadIsForThatOfEverySample) {
  for (const int64_t batch : {1, 2}) {
    Stored mask = stored_random("mask", {2, 5, 5});
    std::string bytes(mask.spec.bytes(0), '\0');
    mask.contents->read(0, std::as_writable_bytes(std::span(bytes)));
    std::vector<float> numbers = numbers_of({ops::DType::kFloat32, mask.spec.shape, bytes});
    if (batch == 2) numbers.insert(numbers.end(), numbers.begin(), numbers.begin() + 50);
    expect_free(attention_graph(batch, stored("mask", {2 * batch, 5, 5}, numbers)));
  }
}

// [N, 2, 3, 3] to [N, 2, 4, 5], as an exporter says it where it computes the sizes.
TEST(FreeBatch, SizesOfAResizeAreOfOneSample) {
  const std::vector<GraphNode> computed{
      node_of("Shape", {"x"}, "shape", {{"end", int64_t{2}}}),
      node_of("Concat", {"shape", "image"}, "sizes", {{"axis", int64_t{0}}}),
      node_of("Resize", {"x", "", "", "sizes"}, "y")};
  const Graph named = graph_of({2, 3, 3}, computed, {stored_integers("image", {4, 5})});
  expect_free(with_batch(2, named));
  Evaluator evaluator;
  const Model model = import_graph(named).model;
  EXPECT_EQ(evaluate(model, {{"x", ramp({3, 2, 3, 3})}}, evaluator)[0].shape,
            (ops::Shape{3, 2, 4, 5}));
  EXPECT_EQ(ops::attribute_ints(model.node(0).attributes, "sizes", {}), (Ints{2, 4, 5}));
  const Graph more = with_batch(2, graph_of({2, 3, 3}, {node_of("Resize", {"x", "", "", "s"}, "y")},
                                            {stored_integers("s", {4, 2, 4, 5})}));
  EXPECT_THAT(import_failure(more), HasSubstr("it makes 4 of its samples"));
}

// [2N, 1] to [2N, 4], by the shape of what it is for.
TEST(FreeBatch, RowsThatThereAreAreNotExpanded) {
  const Graph graph =
      graph_of({2, 4},
               {node_of("Reshape", {"x", "rows"}, "r"),
                node_of("ReduceMax", {"r"}, "most", {{"axes", Ints{1}}}),
                node_of("Shape", {"r"}, "shape"), node_of("Expand", {"most", "shape"}, "e"),
                node_of("Div", {"r", "e"}, "d"), node_of("Reshape", {"d", "back"}, "y")},
               {stored_integers("rows", {-1, 4}), stored_integers("back", {-1, 2, 4})});
  Evaluator evaluator;
  const Tensors x{{"x", floats({1, 2, 4}, {1, 2, 2, 4, 1, 0, 2, 1})}};
  EXPECT_THAT(numbers_of(evaluate(import_graph(graph).model, x, evaluator)[0]),
              testing::ElementsAre(0.25, 0.5, 0.5, 1, 0.5, 0, 1, 0.5));
}

// As an exporter views a tensor by its strides.
TEST(FreeBatch, AGatherOfAllInTheirOrderIsAReshape) {
  const auto graph = [](const Ints& order) {
    return with_batch(2, graph_of({3},
                                  {node_of("Reshape", {"x", "all"}, "flat"),
                                   node_of("Reshape", {"order", "to"}, "places"),
                                   node_of("Gather", {"flat", "places"}, "y")},
                                  {stored_integers("all", {-1}), stored_integers("order", order),
                                   stored_integers("to", {2, 3, 1})}));
  };
  expect_free(graph({0, 1, 2, 3, 4, 5}));
  EXPECT_NE(import_failure(graph({0, 1, 2, 3, 5, 4})), "");
}

// The same of a batch with a name: n * 6 + i * 2 + k, all numbers of sample n in their order.
TEST(FreeBatch, AGatherOfAllOfEachSampleIsAReshape) {
  const auto graph = [](int64_t of_sample, const Ints& within) {
    return graph_of(
        {6},
        {node_of("Shape", {"x"}, "shape", {{"end", int64_t{1}}}),
         node_of("Squeeze", {"shape"}, "n"), node_of("Range", {"zero", "n", "one"}, "samples"),
         node_of("Mul", {"samples", "stride"}, "begins"),
         node_of("Unsqueeze", {"begins", "axes"}, "column"),
         node_of("Reshape", {"within", "matrix"}, "offsets"),
         node_of("Add", {"column", "offsets"}, "places"), node_of("Reshape", {"x", "all"}, "flat"),
         node_of("Gather", {"flat", "places"}, "y")},
        {stored_integer("zero", 0), stored_integer("one", 1), stored_integer("stride", of_sample),
         stored_integers("axes", {1, 2}), stored_integers("within", within),
         stored_integers("matrix", {1, 3, 2}), stored_integers("all", {-1})});
  };
  const Model model = import_graph(graph(6, {0, 1, 2, 3, 4, 5})).model;
  EXPECT_EQ(count_of(model, "Gather"), 0);
  Evaluator evaluator;
  const ops::TensorLiteral x = ramp({2, 6});
  const auto y = evaluate(model, {{"x", x}}, evaluator)[0];
  EXPECT_EQ(y.shape, (ops::Shape{2, 3, 2}));
  EXPECT_EQ(y.bytes, x.bytes);
  EXPECT_THAT(import_failure(graph(6, {0, 1, 2, 3, 5, 4})), HasSubstr("Gather"));
  EXPECT_THAT(import_failure(graph(5, {0, 1, 2, 3, 4, 5})), HasSubstr("Gather"));
}

// What a file would say that names its batch is told where that would help, and only there.
TEST(FreeBatch, TheWayOutIsOneOfThisFile) {
  const std::string way_out = "export it with a batch that has a name";
  const Graph lost = with_batch(
      2, graph_of({4}, {node_of("Reshape", {"x", "s"}, "y")}, {stored_integers("s", {3, 3})}));
  EXPECT_THAT(import_failure(lost), HasSubstr(way_out));
  const std::vector<GraphNode> counted{node_of("Shape", {"x"}, "shape", {{"end", int64_t{1}}}),
                                       node_of("Tile", {"x", "repeats"}, "t"),
                                       node_of("Relu", {"t"}, "y")};
  std::vector<GraphNode> tiled = counted;
  tiled.insert(tiled.begin() + 1,
               node_of("Concat", {"shape", "shape"}, "repeats", {{"axis", int64_t{0}}}));
  const std::string failure = import_failure(with_batch(2, graph_of({4}, tiled, {})));
  EXPECT_THAT(failure, AllOf(HasSubstr("depends on how large the batch N is"),
                             testing::Not(HasSubstr(way_out))));
}

// That has as many rows as the file has samples.
TEST(FreeBatch, AMatrixIsNoRowOfEachSample) {
  expect_free(with_batch(
      2, graph_of({2}, {node_of("MatMul", {"x", "w"}, "y")}, {stored_random("w", {2, 3})})));
  expect_free(with_batch(8, graph_of({5, 8},
                                     {node_of("Transpose", {"x"}, "t", {{"perm", Ints{1, 0, 2}}}),
                                      node_of("MatMul", {"t", "w"}, "u"),
                                      node_of("Transpose", {"u"}, "y", {{"perm", Ints{1, 0, 2}}})},
                                     {stored_random("w", {8, 3})})));
}

// [N, 5, 4] to [5, N, 4] to [5N, 4], whose rows are no longer those of one sample after the other.
Graph positions_first(int64_t batch, const Ints& to) {
  return with_batch(
      batch,
      graph_of({5, 4},
               {node_of("Transpose", {"x"}, "t", {{"perm", Ints{1, 0, 2}}}),
                node_of("Reshape", {"t", "rows"}, "flat"), node_of("Reshape", {"flat", "to"}, "y")},
               {stored_integers("rows", {5 * batch, 4}), stored_integers("to", to)}));
}

TEST(FreeBatch, SamplesAreNotMixed) {
  // Of a batch with a name, too.
  Graph named = positions_first(1, {-1, 5, 4});
  named.inputs[0].shape[0] = {-1, "N"};
  named.initializers.at("rows") = stored_integers("rows", {-1, 4});
  EXPECT_THAT(import_failure(named),
              HasSubstr("it reads [5N, 4] as [N, 5, 4], across its samples"));
  // Where the file has one sample, this could be [5, 1, 4] in another shape.
  EXPECT_THAT(import_failure(positions_first(1, {1, 5, 4})),
              AllOf(HasSubstr("output y: it is [1, 5N, 4], with 5 rows of each sample that lie "
                              "apart")));
  EXPECT_THAT(import_failure(positions_first(2, {2, 5, 4})),
              HasSubstr("no axis of [2, 5, 4] can be the batch of [5N, 4]"));
}

TEST(FreeBatch, RowsOfOneSampleAfterTheOtherAreNotAddedToOthers) {
  Graph graph = positions_first(2, {10, 4});
  graph.nodes.back() = node_of("Reshape", {"x", "rows"}, "others");
  graph.nodes.push_back(node_of("Add", {"flat", "others"}, "y"));
  EXPECT_THAT(import_failure(graph),
              HasSubstr("y.node (Add, opset 17): it joins [5N, 4] whose rows"));
}

}  // namespace
}  // namespace kerf::partitioner::onnx
