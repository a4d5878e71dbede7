// Graphs as exporters write them, made by hand, and what becomes of them: for tests of what is put
// together.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "partitioner/onnx/import.h"

namespace kerf::partitioner::onnx {

using Ints = std::vector<int64_t>;
using Tensors = std::map<std::string, ops::TensorLiteral>;

ops::TensorLiteral floats(const ops::Shape& shape, const std::vector<float>& numbers);
// From -0.8 to 0.8, again and again.
ops::TensorLiteral ramp(const ops::Shape& shape);
std::vector<float> numbers_of(const ops::TensorLiteral& literal);

Stored stored(const std::string& name, const ops::Shape& shape, const std::vector<float>& numbers);
Stored stored_truths(const std::string& name, const ops::Shape& shape,
                     const std::vector<bool>& truths);
Stored stored_integers(const std::string& name, const Ints& integers);
// Normal numbers, the same for the same name.
Stored stored_random(const std::string& name, const ops::Shape& shape, float deviation = 0.5F);

GraphNode node_of(const std::string& op, std::vector<std::string> inputs, const std::string& output,
                  ops::Attributes attributes = {});
// Of opset 17, from "x", [N, sample...], to "y".
Graph graph_of(const Ints& sample, std::vector<GraphNode> nodes, std::vector<Stored> weights);
void add_input(Graph& graph, const std::string& name, const Ints& sample);

int count_of(const Model& model, const std::string& op);

// That the graph gives the same answers put together and as it is, for 3 rows, to `tolerance` of
// the largest.
void expect_same_answers(const Graph& graph, const ImportOptions& options = {},
                         double tolerance = 2e-5);
// The same of a step of training from its cross-entropy: losses and gradients.
void expect_same_training(const Graph& graph, const ImportOptions& options = {},
                          double tolerance = 1e-4);

}  // namespace kerf::partitioner::onnx
