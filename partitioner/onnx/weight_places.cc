#include "partitioner/onnx/weight_places.h"

#include <algorithm>
#include <map>

namespace kerf::partitioner::onnx {
namespace {

using Places = std::map<std::string, std::set<size_t>>;

// By operator, the inputs that are weights or biases.
const Places& places() {
  static const Places table{{"Conv", {1, 2}},
                            {"ConvTranspose", {1, 2}},
                            {"Gemm", {0, 1, 2}},
                            {"MatMul", {0, 1}},
                            {"BatchNormalization", {1, 2}},
                            {"LayerNormalization", {1, 2}},
                            {"InstanceNormalization", {1, 2}},
                            {"GroupNormalization", {1, 2}},
                            {"RMSNormalization", {1}},
                            {"PRelu", {1}},
                            {"LSTM", {1, 2, 3, 7}},
                            {"GRU", {1, 2, 3}},
                            {"RNN", {1, 2, 3}},
                            {"Gather", {0}}};
  return table;
}

// What gives its first input, or numbers made of it, in another shape or order.
bool is_view(const std::string& op) {
  static const std::set<std::string> kViews{"Identity", "Reshape",   "Squeeze", "Unsqueeze",
                                            "Flatten",  "Transpose", "Cast"};
  return kViews.contains(op);
}

bool shifts(const std::string& op) { return op == "Add" || op == "Mul"; }

// Of two values that are computed: a layer normalisation in pieces centres and divides so.
bool normalizes(const Graph& graph, const std::set<std::string>& constants, const GraphNode& node) {
  const auto is_computed = [&](const std::string& name) {
    return !graph.initializers.contains(name) && !constants.contains(name);
  };
  return (node.op == "Sub" || node.op == "Div") &&
         std::all_of(node.inputs.begin(), node.inputs.end(), is_computed);
}

}  // namespace

std::set<std::string> weight_places(const Graph& graph) {
  std::set<std::string> weights;
  // Values that are computed with weights last: a constant added to them is a bias.
  std::set<std::string> weighted;
  std::set<std::string> constants;
  const auto is_weighted = [&](const std::string& name) { return weighted.contains(name); };
  for (const GraphNode& node : graph.nodes) {
    const auto row = places().find(node.op);
    const bool has_weights = row != places().end();
    if (node.op == "Constant") constants.insert(node.outputs.begin(), node.outputs.end());
    bool follows = has_weights;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (has_weights && row->second.contains(i)) weights.insert(node.inputs[i]);
    if (shifts(node.op) && std::any_of(node.inputs.begin(), node.inputs.end(), is_weighted)) {
      follows = true;
      weights.insert(node.inputs.begin(), node.inputs.end());
    }
    if ((is_view(node.op) || normalizes(graph, constants, node)) && !node.inputs.empty())
      follows = is_weighted(node.inputs[0]);
    if (follows && !node.outputs.empty()) weighted.insert(node.outputs[0]);
  }
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node)
    if (is_view(node->op) && !node->inputs.empty() && !node->outputs.empty() &&
        weights.contains(node->outputs[0]))
      weights.insert(node->inputs[0]);
  return weights;
}

}  // namespace kerf::partitioner::onnx
