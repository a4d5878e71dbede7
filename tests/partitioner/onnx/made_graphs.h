// Graphs made by hand, of one input x [N, ...] and one output y, and numbers for them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "partitioner/onnx/graph.h"
#include "partitioner/onnx/weight_file.h"

namespace kerf::partitioner::onnx {

// From -0.8 to 0.8, again and again.
inline ops::TensorLiteral ramp(const ops::Shape& shape) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < shape.elements(); ++i)
    numbers.push_back(static_cast<float>(i % 17) * 0.1F - 0.8F);
  return {ops::DType::kFloat32,
          shape,
          {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)}};
}

inline Stored stored(const std::string& name, const ops::Shape& shape,
                     const std::vector<float>& numbers) {
  return {
      name,
      {ops::DType::kFloat32, shape},
      ops::DType::kFloat32,
      contents_of({reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)},
                  ops::DType::kFloat32)};
}

inline GraphNode node_of(const std::string& op, std::vector<std::string> inputs,
                         const std::string& output, ops::Attributes attributes = {}) {
  return {output + ".node", op, std::move(attributes), std::move(inputs), {output}};
}

inline Graph graph_of(std::vector<int64_t> sample, std::vector<GraphNode> nodes,
                      std::vector<Stored> weights) {
  Graph graph{"made", 17, std::move(nodes), {{"x", ops::DType::kFloat32, {{-1, "N"}}}}, {"y"}, {}};
  for (const int64_t extent : sample) graph.inputs[0].shape.push_back({extent, ""});
  for (Stored& each : weights) graph.initializers.emplace(each.name, each);
  return graph;
}

}  // namespace kerf::partitioner::onnx
