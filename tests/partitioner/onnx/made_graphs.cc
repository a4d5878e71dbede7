#include "tests/partitioner/onnx/made_graphs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "partitioner/onnx/evaluate.h"
#include "partitioner/onnx/weight_file.h"

namespace kerf::partitioner::onnx {
namespace {

constexpr int64_t kRows = 3;

template <class T>
std::string bytes_in(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

Stored stored_as(const std::string& name, ops::DType dtype, const ops::Shape& shape,
                 std::string bytes) {
  return {name, {dtype, shape}, dtype, contents_of(std::move(bytes), dtype)};
}

}  // namespace

ops::TensorLiteral floats(const ops::Shape& shape, const std::vector<float>& numbers) {
  return {ops::DType::kFloat32, shape, bytes_in(numbers)};
}

ops::TensorLiteral ramp(const ops::Shape& shape) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < shape.elements(); ++i)
    numbers.push_back(static_cast<float>(i % 17) * 0.1F - 0.8F);
  return floats(shape, numbers);
}

std::vector<float> numbers_of(const ops::TensorLiteral& literal) {
  std::vector<float> numbers(literal.bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), literal.bytes.data(), literal.bytes.size());
  return numbers;
}

Stored stored(const std::string& name, const ops::Shape& shape, const std::vector<float>& numbers) {
  return stored_as(name, ops::DType::kFloat32, shape, bytes_in(numbers));
}

Stored stored_truths(const std::string& name, const ops::Shape& shape,
                     const std::vector<bool>& truths) {
  std::string bytes;
  for (const bool truth : truths) bytes += truth ? '\1' : '\0';
  return stored_as(name, ops::DType::kBool, shape, std::move(bytes));
}

Stored stored_integers(const std::string& name, const Ints& integers) {
  return stored_as(name, ops::DType::kInt64, {static_cast<int64_t>(integers.size())},
                   bytes_in(integers));
}

Stored stored_random(const std::string& name, const ops::Shape& shape, float deviation) {
  std::mt19937 random(static_cast<uint32_t>(std::hash<std::string>()(name)));
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> numbers(static_cast<size_t>(shape.elements()));
  for (float& number : numbers) number = normal(random);
  return stored(name, shape, numbers);
}

GraphNode node_of(const std::string& op, std::vector<std::string> inputs, const std::string& output,
                  ops::Attributes attributes) {
  return {output + ".node", op, std::move(attributes), std::move(inputs), {output}};
}

void add_input(Graph& graph, const std::string& name, const Ints& sample) {
  GraphInput& input = graph.inputs.emplace_back();
  input = {name, ops::DType::kFloat32, {{-1, "N"}}};
  for (const int64_t extent : sample) input.shape.push_back({extent, ""});
}

Graph graph_of(const Ints& sample, std::vector<GraphNode> nodes, std::vector<Stored> weights) {
  Graph graph{"made", 17, std::move(nodes), {}, {"y"}, {}};
  add_input(graph, "x", sample);
  for (Stored& each : weights) graph.initializers.emplace(each.name, each);
  return graph;
}

int count_of(const Model& model, const std::string& op) {
  int count = 0;
  for (NodeId id = 0; id < model.nodes(); ++id) count += model.node(id).op == op ? 1 : 0;
  return count;
}

void expect_same_answers(const Graph& graph, const ImportOptions& options, double tolerance) {
  ImportOptions unfused = options;
  unfused.fuse = false;
  Tensors inputs;
  for (const GraphInput& input : graph.inputs) {
    Ints extents{kRows};
    for (size_t i = 1; i < input.shape.size(); ++i) extents.push_back(input.shape[i].extent);
    inputs[input.name] = ramp(ops::Shape(extents));
  }
  Evaluator evaluator;
  const auto pieces = evaluate(import_graph(graph, unfused).model, inputs, evaluator);
  const auto one = evaluate(import_graph(graph, options).model, inputs, evaluator);
  ASSERT_EQ(pieces.size(), one.size());
  for (size_t k = 0; k < one.size(); ++k) {
    ASSERT_EQ(pieces[k].shape, one[k].shape);
    const std::vector<float> wanted = numbers_of(pieces[k]);
    const std::vector<float> got = numbers_of(one[k]);
    double largest = 1;
    for (const float number : wanted)
      largest = std::max(largest, std::abs(static_cast<double>(number)));
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], wanted[i], tolerance * largest) << "at " << i;
  }
}

}  // namespace kerf::partitioner::onnx
