// What nodes of older opsets mean, and numbers of files that Kerf's nodes have as attributes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "partitioner/onnx/import.h"
#include "partitioner/onnx/weight_file.h"
#include "tests/support/errors.h"

namespace kerf::partitioner::onnx {
namespace {

using testing::HasSubstr;
using tests::error_of;

constexpr double kLastFloat = std::numeric_limits<float>::max();

// One node of x [N, `extent`], which gives y.
Graph graph_of_one(int opset, const std::string& op, ops::Attributes attributes,
                   std::vector<std::string> inputs = {"x"}, int64_t extent = 4) {
  return {"made",
          opset,
          {{"node", op, std::move(attributes), std::move(inputs), {"y"}}},
          {{"x", ops::DType::kFloat32, {{-1, "N"}, {extent, ""}}}},
          {"y"},
          {}};
}

template <class T>
void add_number(Graph& graph, ops::DType dtype, const std::string& name, T number) {
  const std::string bytes(reinterpret_cast<const char*>(&number), sizeof number);
  graph.initializers[name] = {name, {dtype, {}}, dtype, contents_of(bytes, dtype)};
}

std::string refusal_of(const Graph& graph) {
  const auto error = error_of([&] { (void)import_graph(graph); });
  return error ? error->what() : "";
}

TEST(Adapt, ClipHadBoundsOfItsOwn) {
  const Model six = import_graph(graph_of_one(6, "Clip", {{"min", -1.0}})).model;
  EXPECT_EQ(ops::attribute_float(six.node(0).attributes, "min", 0), -1);
  EXPECT_EQ(ops::attribute_float(six.node(0).attributes, "max", 0), kLastFloat);
  const Model eleven = import_graph(graph_of_one(11, "Clip", {})).model;
  EXPECT_TRUE(eleven.node(0).attributes.empty());
}

TEST(Adapt, PartsOfASplitAreAsManyAsItsOutputs) {
  const ops::Attributes many{{"axis", int64_t{1}}, {"num_outputs", int64_t{1} << 40}};
  EXPECT_THAT(refusal_of(graph_of_one(18, "Split", many)),
              HasSubstr("it has 1 outputs, but num_outputs 1099511627776"));
}

TEST(Adapt, OneHotCountedNoIndexFromTheEndOnce) {
  EXPECT_THAT(refusal_of(graph_of_one(9, "OneHot", {{"depth", int64_t{3}}})), HasSubstr("OneHot"));
}

TEST(Import, NumbersAreExactOrRefused) {
  const auto clipped = [](int64_t most) {
    Graph graph = graph_of_one(13, "Clip", {}, {"x", "", "most"});
    graph.inputs[0].dtype = ops::DType::kInt64;
    add_number(graph, ops::DType::kInt64, "most", most);
    return graph;
  };
  EXPECT_THAT(refusal_of(clipped((int64_t{1} << 53) + 1)), HasSubstr("9007199254740993"));
  constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(ops::attribute_float(import_graph(clipped(kLast)).model.node(0).attributes, "max", 0),
            0x1p63);
  Graph unsigned_numbers = graph_of_one(13, "Clip", {}, {"x", "", "most"});
  unsigned_numbers.inputs[0].dtype = ops::DType::kUint64;
  add_number(unsigned_numbers, ops::DType::kUint64, "most", std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(ops::attribute_float(import_graph(unsigned_numbers).model.node(0).attributes, "max", 0),
            0x1p64);
}

TEST(Import, InputsThatNobodyCouldCountAreRefused) {
  Graph graph = graph_of_one(13, "Relu", {}, {"x"}, int64_t{1} << 62);
  EXPECT_THAT(refusal_of(graph), testing::AllOf(HasSubstr("input x"), HasSubstr("more elements")));
}

}  // namespace
}  // namespace kerf::partitioner::onnx
