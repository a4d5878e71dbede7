// Graphs that nobody exports: each is refused by the name of its node, at once, in little memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <span>

#include "ops/operator.h"
#include "partitioner/onnx/read.h"
#include "partitioner/onnx/weight_file.h"
#include "runtime/format.h"
#include "tests/partitioner/onnx/made_graphs.h"
#include "tests/support/allocation_meter.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
extern "C" size_t __sanitizer_get_current_allocated_bytes();  // whose header GCC leaves out
#endif

namespace kerf::partitioner::onnx {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using tests::error_of;

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr size_t kAllowed = size_t{1} << 30;  // bytes that one import may take in all

void expect_refused(const Graph& graph, const std::string& node, const std::string& why) {
  const size_t before = tests::allocated_bytes();
  const auto error = error_of([&] { import_graph(graph); });
  EXPECT_LE(tests::allocated_bytes() - before, kAllowed);
  ASSERT_TRUE(error) << why;
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
  EXPECT_THAT(error->what(), AllOf(HasSubstr("made: node " + node), HasSubstr(why)));
}

// Of one that holds: it takes no more than others may.
void expect_small(const Graph& graph) {
  const size_t before = tests::allocated_bytes();
  import_graph(graph);
  EXPECT_LE(tests::allocated_bytes() - before, kAllowed);
}

Stored empty(const std::string& name, const ops::Shape& shape) {
  return {
      name, {ops::DType::kInt64, shape}, ops::DType::kInt64, contents_of("", ops::DType::kInt64)};
}

ops::Attributes fill(ops::DType dtype, int64_t number) {
  if (dtype == ops::DType::kFloat32) return {{"value", floats({1}, {static_cast<float>(number)})}};
  return {{"value", ops::TensorLiteral{dtype, {1}, {reinterpret_cast<const char*>(&number), 8}}}};
}

// Of a constant that is made, its largest number added to x.
Graph with_constant(std::vector<GraphNode> nodes, const std::string& constant,
                    const Ints& extents) {
  nodes.push_back(node_of("ReduceMax", {constant}, "largest", {{"keepdims", int64_t{0}}}));
  nodes.push_back(node_of("Add", {"x", "largest"}, "y"));
  return graph_of({8}, std::move(nodes), {stored_integers("extents", extents)});
}

TEST(HostileGraphs, ANodeWithoutItsInputs) {
  const auto graph = [](const std::string& op, std::vector<std::string> inputs) {
    return graph_of({8}, {node_of(op, std::move(inputs), "y", {{"shape", Ints{1}}})}, {});
  };
  expect_refused(graph("Reshape", {}), "y.node", "Reshape");
  expect_refused(graph("Reshape", {"", "x"}), "y.node", "Reshape");
  Graph identity = graph("Identity", {"", "x"});
  identity.nodes[0].attributes.clear();
  expect_refused(identity, "y.node", "Identity");
  const Graph transpose =
      graph_of({8}, {node_of("Transpose", {"", "w"}, "t"), node_of("Add", {"x", "t"}, "y")},
               {stored("w", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})});
  expect_refused(transpose, "t.node", "Transpose");
}

// Whatever it lacks, and whatever that is which it has: taken or refused.
TEST(HostileGraphs, AnyNodeWithTooFewInputsOrOutputs) {
  std::vector<std::string> names = ops::operator_names();
  for (const char* read_alone : {"CastLike",
                                 "Compress",
                                 "Constant",
                                 "ConstantOfShape",
                                 "ConvInteger",
                                 "DequantizeLinear",
                                 "DynamicQuantizeLinear",
                                 "GELU",
                                 "MatMulInteger",
                                 "Mod",
                                 "NonZero",
                                 "QLinearConv",
                                 "QLinearMatMul",
                                 "QuantizeLinear",
                                 "Range",
                                 "Scatter",
                                 "Shape",
                                 "Size",
                                 "Sum",
                                 "Upsample"})
    names.emplace_back(read_alone);
  const std::vector<std::vector<std::string>> given{{},
                                                    {""},
                                                    {"x"},
                                                    {"w"},
                                                    {"n"},
                                                    {"", "x"},
                                                    {"x", ""},
                                                    {"w", ""},
                                                    {"x", "n"},
                                                    {"w", "w"},
                                                    {"", "", ""},
                                                    {"x", "", ""},
                                                    {"x", "w", "n"},
                                                    {"", "w", "", "n"}};
  int refused = 0;
  for (const std::string& op : names)
    for (const auto& inputs : given)
      for (const int opset : {6, 17})
        for (const bool has_output : {true, false}) {
          Graph graph = graph_of(
              {8}, {node_of(op, inputs, "z"), node_of("Neg", {"x"}, "y")},
              {stored("w", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), stored_integers("n", {2, 4})});
          graph.opset = opset;
          if (has_output)
            graph.nodes.back().inputs = {"z"};
          else
            graph.nodes.front().outputs.clear();
          const auto error = error_of([&] { import_graph(graph); });
          if (!error) continue;
          ++refused;
          EXPECT_NE(error->code(), ErrorCode::kInternal)
              << op << " of " << inputs.size() << " inputs, opset " << opset << ": "
              << error->what();
        }
  EXPECT_GT(refused, 1000);
}

TEST(HostileGraphs, IntegersThatOverflow) {
  const Graph graph =
      graph_of({8},
               {node_of("Shape", {"x"}, "s"), node_of("Slice", {"s", "zero", "one"}, "n"),
                node_of("Mul", {"n", "least"}, "p"), node_of("Neg", {"n"}, "q"),
                node_of("Div", {"p", "q"}, "d"), node_of("Reshape", {"x", "d"}, "y")},
               {stored_integers("zero", {0}), stored_integers("one", {1}),
                stored_integers("least", {kLeast})});
  expect_refused(graph, "d.node", "overflows");
  const int64_t large = int64_t{1} << 40;
  expect_refused(graph_of({1, 1},
                          {node_of("Expand", {"x", "shape"}, "e"), node_of("Size", {"e"}, "s"),
                           node_of("Reshape", {"x", "s"}, "y")},
                          {stored_integers("shape", {1, large, large})}),
                 "e.node", "has more elements than can be counted");
}

TEST(HostileGraphs, AnAxisFarAway) {
  for (const int64_t axis :
       {kLeast, -(int64_t{1} << 62), int64_t{3}, std::numeric_limits<int64_t>::max()}) {
    Graph graph = graph_of({8}, {node_of("Add", {"x", "b"}, "y", {{"axis", axis}})},
                           {stored_random("b", {8})});
    graph.opset = 6;
    expect_refused(graph, "y.node", "is none of its inputs'");
  }
}

TEST(HostileGraphs, MorePartsThanOutputs) {
  for (const int64_t parts : {std::numeric_limits<int64_t>::max(), int64_t{0}, int64_t{3}}) {
    GraphNode split = node_of("Split", {"x"}, "y", {{"axis", int64_t{1}}, {"num_outputs", parts}});
    split.outputs.emplace_back("z");
    Graph graph = graph_of({8}, {split}, {});
    graph.opset = 18;
    expect_refused(graph, "y.node", "num_outputs");
  }
}

TEST(HostileGraphs, EmptyTensorsOfLargeExtents) {
  const int64_t large = int64_t{1} << 40;
  for (const std::string op : {"Concat", "Slice", "Split"}) {
    Graph graph = graph_of({8}, {node_of(op, {"e", "e"}, "y", {{"axis", int64_t{1}}})}, {});
    graph.initializers.emplace("e", empty("e", {large, 0}));
    expect_refused(graph, "y.node", "");
  }
  expect_refused(with_constant({node_of("ConstantOfShape", {"extents"}, "c")}, "c", {large, 0}),
                 "c.node", "an empty tensor of shape");
  Graph viewed = with_constant({node_of("Reshape", {"none", "extents"}, "c")}, "c", {large, 0});
  viewed.initializers.emplace("none", empty("none", {0}));
  viewed.nodes[0].attributes["allowzero"] = int64_t{1};
  expect_refused(viewed, "c.node", "an empty tensor of shape");
}

TEST(HostileGraphs, ManyLargeConstants) {
  const Ints extents{int64_t{64} << 20};
  std::vector<GraphNode> chain{
      node_of("ConstantOfShape", {"extents"}, "c0", fill(ops::DType::kFloat32, 1))};
  for (int i = 0; i < 12; ++i)
    chain.push_back(node_of("Neg", {format("c{}", i)}, format("c{}", i + 1)));
  expect_refused(with_constant(chain, "c12", extents), "c", "are left for all of them");
  const std::vector<std::string> often(24, "c0");
  expect_refused(with_constant({chain[0], node_of("Sum", often, "sum")}, "sum", extents),
                 "sum.node", "");
}

size_t taken_of_heap() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return __sanitizer_get_current_allocated_bytes();
#else
  const auto heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
#endif
}

// Tells how much of the heap is taken when it is read.
class Probe final : public Contents {
 public:
  void read(size_t, std::span<std::byte> to) const override {
    taken_ = taken_of_heap();
    std::fill(to.begin(), to.end(), std::byte{0});
  }
  std::string identity() const override { return "probe"; }
  size_t taken() const { return taken_; }

 private:
  mutable size_t taken_ = 0;
};

TEST(HostileGraphs, ConstantsThatNobodyReadsAnyMoreAreForgotten) {
  constexpr int64_t kNumbers = int64_t{8} << 20;
  std::vector<GraphNode> chain{
      node_of("ConstantOfShape", {"extents"}, "c0", fill(ops::DType::kFloat32, 1))};
  for (int i = 0; i < 6; ++i)
    chain.push_back(node_of("Neg", {format("c{}", i)}, format("c{}", i + 1)));
  chain.push_back(node_of("ReduceMax", {"c6"}, "most", {{"keepdims", int64_t{0}}}));
  chain.push_back(node_of("Add", {"most", "probe"}, "sum"));
  Graph graph = with_constant(chain, "sum", {kNumbers});
  const auto probe = std::make_shared<Probe>();
  graph.initializers.emplace(
      "probe", Stored{"probe", {ops::DType::kFloat32, {1}}, ops::DType::kFloat32, probe});
  const size_t before = taken_of_heap();
  expect_small(graph);
  ASSERT_GT(probe->taken(), 0U);
  // Of six constants none: what is left is the memory of the last evaluation.
  EXPECT_LT(probe->taken(), before + 3 * kNumbers * sizeof(float));
}

// Of which only the shapes are read.
TEST(HostileGraphs, ManyLongSequences) {
  const auto graph = [](int sequences) {
    std::vector<GraphNode> nodes;
    std::vector<std::string> shapes;
    for (int i = 0; i < sequences; ++i) {
      nodes.push_back(node_of("Range", {"begin", "end", "step"}, format("r{}", i)));
      shapes.push_back(format("s{}", i));
      nodes.push_back(node_of("Shape", {nodes.back().outputs[0]}, shapes.back()));
    }
    nodes.push_back(node_of("Sum", shapes, "all"));
    nodes.push_back(node_of("Cast", {"all"}, "sum", {{"to", int64_t{1}}}));
    nodes.push_back(node_of("Add", {"x", "sum"}, "y"));
    return graph_of(
        {8}, std::move(nodes),
        {stored("begin", {}, {0}), stored("end", {}, {float{1 << 24}}), stored("step", {}, {1})});
  };
  expect_small(graph(7));
  expect_refused(graph(20), "r8.node", "are left for all of them");
}

TEST(HostileGraphs, ManyIntegers) {
  const std::vector<std::string> often(8000, "c");
  expect_refused(
      with_constant({node_of("ConstantOfShape", {"extents"}, "c", fill(ops::DType::kInt64, 1)),
                     node_of("Concat", often, "all", {{"axis", int64_t{0}}})},
                    "all", {65536}),
      "all.node", "");
}

TEST(HostileGraphs, ManyIntegersOfTheBatch) {
  std::vector<GraphNode> nodes{
      node_of("ConstantOfShape", {"extents"}, "c", fill(ops::DType::kInt64, 1)),
      node_of("Shape", {"x"}, "s"), node_of("Slice", {"s", "zero", "one"}, "n"),
      node_of("Mul", {"c", "n"}, "rows")};
  const auto refuse = [](std::vector<GraphNode> of, const std::string& last,
                         const std::string& why) {
    of.push_back(node_of("Reshape", {"x", last}, "y"));
    expect_refused(graph_of({8}, std::move(of),
                            {stored_integers("extents", {65536}), stored_integers("zero", {0}),
                             stored_integers("one", {1})}),
                   "", why);
  };
  std::vector<GraphNode> often = nodes;
  often.push_back(
      node_of("Concat", std::vector<std::string>(3000, "rows"), "all", {{"axis", int64_t{0}}}));
  refuse(often, "all", "");
  for (int i = 0; i < 1500; ++i)
    nodes.push_back(node_of("Neg", {i == 0 ? "rows" : format("r{}", i - 1)}, format("r{}", i)));
  refuse(nodes, "r1499", "are left for all of them");
}

TEST(HostileGraphs, PartsThatOverflow) {
  constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
  GraphNode split = node_of("Split", {"whole", "parts"}, "a", {{"axis", int64_t{0}}});
  split.outputs = {"a", "b", "c"};
  const Graph graph =
      graph_of({8}, {split, node_of("Reshape", {"x", "c"}, "y")},
               {stored_integers("whole", {1, -1, 4}), stored_integers("parts", {kLast, kLast, 5})});
  expect_refused(graph, "a.node", "its parts are not the whole");
}

TEST(HostileGraphs, AShapeOfManyAxesIsNotListed) {
  const Graph graph =
      graph_of({8},
               {node_of("ConstantOfShape", {"extents"}, "c", fill(ops::DType::kInt64, 1)),
                node_of("Reshape", {"x", "c"}, "y")},
               {stored_integers("extents", {65536})});
  expect_refused(graph, "y.node", "a shape of 65536 axes");
}

TEST(HostileGraphs, ABatchOfMoreThanAnyoneHas) {
  Graph graph = graph_of({8}, {node_of("Relu", {"x"}, "y")}, {});
  graph.inputs[0].shape[0] = {std::numeric_limits<int64_t>::max(), ""};
  const auto error = error_of([&] { import_graph(graph); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), AllOf(HasSubstr("input x"), HasSubstr("are the most")));
}

TEST(HostileGraphs, AnAxisThatIsReflectedForEver) {
  const int64_t often = 10 << 20;
  for (const std::string mode : {"reflect", "wrap"})
    expect_refused(
        graph_of({2},
                 {node_of("Pad", {"x"}, "y", {{"mode", mode}, {"pads", Ints{0, 0, 0, often}}})},
                 {}),
        "y.node", "goes over an axis of 2 more than");
}

TEST(HostileGraphs, OperatorsOfKerfsOwn) {
  for (const char* op : {"ChannelSum", "SumLoss", "FusedConv"})
    expect_refused(graph_of({4}, {node_of(op, {"x", "x"}, "y")}, {}), "y.node",
                   "ONNX has no such operator");
}

TEST(HostileGraphs, EndlessPaddingBehind) {
  expect_refused(graph_of({3, 4, 5},
                          {node_of("ConvTranspose", {"w", "w"}, "c",
                                   {{"output_padding", Ints{2, int64_t{1} << 60}}}),
                           node_of("ReduceMax", {"c"}, "m", {{"keepdims", int64_t{0}}}),
                           node_of("Add", {"x", "m"}, "y")},
                          {stored_random("w", {3, 3, 3, 3})}),
                 "c.node", "or too much");
}

TEST(HostileGraphs, LongProducts) {
  const GraphNode filled =
      node_of("ConstantOfShape", {"extents"}, "c", fill(ops::DType::kFloat32, 1));
  expect_refused(with_constant({filled, node_of("MatMul", {"c", "c"}, "p")}, "p", {4000, 4000}),
                 "p.node", "operations to compute a constant");
}

TEST(HostileGraphs, ConstantsOfNoShape) {
  const auto graph = [](const ops::Attributes& attributes, const Ints& extents) {
    return with_constant({node_of("ConstantOfShape", {"extents"}, "c", attributes)}, "c", extents);
  };
  expect_refused(graph({{"value", int64_t{3}}}, {8}), "c.node", "its value must be a tensor");
  expect_refused(graph({}, {-1, 8}), "c.node", "its shape has an extent of -1");
  expect_refused(graph(fill(ops::DType::kInt64, kLeast), {8}), "c.node", "larger than 2^53");
}

TEST(HostileGraphs, ViewsOfNoShape) {
  const auto graph = [](const Ints& shape) {
    Graph made = with_constant({node_of("Reshape", {"e", "extents"}, "c")}, "c", shape);
    made.initializers.emplace("e", stored("e", {0, 5}, {}));
    return made;
  };
  expect_refused(graph({-1, -1}), "c.node", "its shape has an extent of -1");
  // The other extent of nothing is 0.
  Graph nothing = graph({0, -1});
  nothing.nodes = {nothing.nodes[0], node_of("Relu", {"x"}, "y")};
  nothing.outputs.emplace_back("c");
  expect_small(nothing);
  EXPECT_EQ(import_graph(nothing).constants.at("c").shape, ops::Shape({0, 0}));
}

TEST(HostileGraphs, IntegersThatAreFilledInAreContents) {
  const Graph graph =
      graph_of({5},
               {node_of("ConstantOfShape", {"extents"}, "table", fill(ops::DType::kInt64, 3)),
                node_of("Cast", {"x"}, "rows", {{"to", int64_t{7}}}),
                node_of("Gather", {"table", "rows"}, "picked"), node_of("Relu", {"picked"}, "y")},
               {stored_integers("extents", {1 << 18})});
  const Model model = import_graph(graph).model;
  EXPECT_NE(model.value(model.find_value("table")).contents, nullptr);
}

TEST(HostileGraphs, AnOutputThatNoSuchNodeHas) {
  GraphNode filled = node_of("ConstantOfShape", {"extents"}, "none");
  filled.outputs = {"", "c"};
  expect_refused(with_constant({filled}, "c", {8}), "none.node", "it gives no output c");
}

TEST(HostileGraphs, AScaleForEachSample) {
  for (const std::string op : {"QLinearMatMul", "QLinearConv"})
    expect_refused(graph_of({8}, {node_of(op, std::vector<std::string>(9, "x"), "y")}, {}),
                   "y.node", "its input 1 has a scale for each row or column");
}

TEST(HostileGraphs, QuantizedNodesWithoutTheirInputs) {
  const auto refuse = [](const std::string& op, size_t inputs, const std::string& why) {
    std::vector<std::string> names{"x", "one", "zero", "x", "one", "zero", "one", "zero"};
    names.resize(inputs);
    expect_refused(
        graph_of({8}, {node_of(op, names, "y")}, {stored("one", {}, {1}), stored("zero", {}, {0})}),
        "y.node", why);
  };
  refuse("DynamicQuantizeLinear", 0, "it has no input 0");
  refuse("QuantizeLinear", 1, "it has no input 1");
  refuse("QLinearMatMul", 6, "it has no input 6");
  refuse("QLinearMatMul", 7, "it has no input 7");
}

TEST(HostileGraphs, GroupsThatAreNone) {
  const auto refuse = [](const Ints& sample, int64_t groups, const std::string& why) {
    const std::vector<float> scales(static_cast<size_t>(groups), 1.0F);
    Graph graph = graph_of(
        sample, {node_of("GroupNormalization", {"x", "s", "s"}, "y", {{"num_groups", groups}})},
        {stored("s", {groups}, scales)});
    graph.opset = 18;
    expect_refused(graph, "y.node", why);
  };
  refuse({4, 6}, 0, "group");
  refuse({int64_t{1} << 40, 1}, 2, "it needs a constant of shape");
}

TEST(HostileGraphs, APipeIsNoFile) {
  const tests::TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe.onnx").c_str(), 0600), 0);
  const auto error = error_of([&] { read_graph(folder / "pipe.onnx"); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("it is no regular file"));
}

}  // namespace
}  // namespace kerf::partitioner::onnx
