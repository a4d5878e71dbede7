#include "partitioner/onnx/training_form.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "partitioner/losses.h"
#include "runtime/error.h"

namespace kerf::partitioner::onnx {
namespace {

GraphNode* producer_of(Graph& graph, const std::string& value) {
  for (GraphNode& node : graph.nodes)
    if (std::find(node.outputs.begin(), node.outputs.end(), value) != node.outputs.end())
      return &node;
  return nullptr;
}

int64_t uses_of(const Graph& graph, const std::string& value) {
  int64_t uses = std::count(graph.outputs.begin(), graph.outputs.end(), value);
  for (const GraphNode& node : graph.nodes)
    uses += std::count(node.inputs.begin(), node.inputs.end(), value);
  return uses;
}

bool is_stored(const Graph& graph, const std::string& value) {
  return graph.initializers.contains(value);
}

// Of a Constant of numbers; null of other nodes.
const ops::ValueSpec* spec_in(const GraphNode& node, ops::ValueSpec& room) {
  if (node.op != "Constant" || node.attributes.size() != 1 || node.outputs.empty()) return nullptr;
  const ops::Attribute& value = node.attributes.begin()->second;
  if (const auto* tensor = std::get_if<ops::TensorLiteral>(&value))
    room = {tensor->dtype, tensor->shape};
  else if (const auto* list = std::get_if<std::vector<double>>(&value))
    room = {ops::DType::kFloat32, {static_cast<int64_t>(list->size())}};
  else
    return nullptr;
  return room.dtype == ops::DType::kFloat32 ? &room : nullptr;
}

// A weight as an operand has it: behind nodes that pass it on or turn it over.
struct Operand {
  std::vector<std::string> values;  // from the operand to what is stored
  ops::Shape shape;                 // of what is stored
  bool turned = false;
};

bool turns_a_matrix(const GraphNode& node) {
  return node.op == "Transpose" &&
         ops::attribute_ints(node.attributes, "perm", {1, 0}) == std::vector<int64_t>{1, 0};
}

std::optional<Operand> stored_operand(Graph& graph, std::string value) {
  Operand operand;
  while (true) {
    operand.values.push_back(value);
    if (is_stored(graph, value)) {
      operand.shape = graph.initializers.at(value).spec.shape;
      return operand;
    }
    const GraphNode* node = producer_of(graph, value);
    if (node == nullptr) return std::nullopt;
    ops::ValueSpec room;
    if (const ops::ValueSpec* constant = spec_in(*node, room)) {
      operand.shape = constant->shape;
      return operand;
    }
    const bool turns = turns_a_matrix(*node);
    if ((!turns && node->op != "Identity") || node->inputs.empty()) return std::nullopt;
    operand.turned = operand.turned != turns;
    value = node->inputs[0];
  }
}

// The layer that gives an output: its product, and what adds its bias if that is another node.
struct Head {
  std::string product;
  Operand weight;
  size_t outputs_axis = 0;           // of the weight as it is stored
  std::optional<Operand> bias = {};  // nothing: it has none that is stored
};

// What lies between a layer and an output without changing how many classes there are.
bool keeps_classes(const std::string& op) {
  static const std::set<std::string> kOps{"Softmax", "LogSoftmax", "Identity", "Cast",
                                          "Sigmoid", "Relu",       "Dropout"};
  return kOps.contains(op);
}

// Whether the loss computes this of its scores itself.
bool has_within(const std::string& loss, const std::string& op) {
  if (loss == kCrossEntropy) return op == "Softmax" || op == "LogSoftmax";
  return loss == kBinaryCrossEntropy && op == "Sigmoid";
}

Head find_head(Graph& graph) {
  std::string value = graph.outputs.front();
  Head head;
  while (const GraphNode* node = producer_of(graph, value)) {
    const bool product = (node->op == "Gemm" || node->op == "MatMul") && node->inputs.size() >= 2;
    if (auto weight = product ? stored_operand(graph, node->inputs[1]) : std::nullopt) {
      head.product = node->name;
      const bool turned =
          node->op == "Gemm" && ops::attribute_int(node->attributes, "transB", 0) != 0;
      head.outputs_axis = turned != weight->turned ? 0 : 1;
      head.weight = std::move(*weight);
      if (node->inputs.size() > 2) head.bias = stored_operand(graph, node->inputs[2]);
      return head;
    }
    if (node->op == "Add" && node->inputs.size() == 2 && !head.bias) {
      size_t at = 1;
      head.bias = stored_operand(graph, node->inputs[at]);
      if (!head.bias) head.bias = stored_operand(graph, node->inputs[at = 0]);
      if (!head.bias) break;
      value = node->inputs[1 - at];
    } else if (keeps_classes(node->op) && !node->inputs.empty()) {
      value = node->inputs[0];
    } else {
      break;
    }
  }
  refuse(format("no Gemm or MatMul with a weight of its own gives {}, so it has no head to replace",
                graph.outputs.front()),
         graph.origin);
}

// What is used elsewhere, too, is left to that where an Identity of it is the head's own, as
// exporters write tensors that were equal.
void begin_anew(Graph& graph, const Operand& operand, const ops::Shape& shape, int64_t fan_in) {
  std::string name = operand.values.back();
  for (size_t i = 0; i < operand.values.size(); ++i) {
    const std::string& value = operand.values[i];
    if (uses_of(graph, value) == 1) continue;
    const GraphNode* above = i == 0 ? nullptr : producer_of(graph, operand.values[i - 1]);
    if (above == nullptr || above->op != "Identity" || i + 1 != operand.values.size())
      refuse(format("{} is used elsewhere too, so the head cannot be replaced", value),
             graph.origin);
    name = operand.values[i - 1];
  }
  std::erase_if(graph.nodes, [&](const GraphNode& node) {
    return !node.outputs.empty() && node.outputs[0] == name;
  });
  const ops::Initializer uniform{ops::Initializer::Kind::kUniform,
                                 1.0 / std::sqrt(static_cast<double>(fan_in))};
  graph.initializers[name] = {
      name, {ops::DType::kFloat32, shape}, ops::DType::kFloat32, nullptr, uniform};
}

}  // namespace

Joined end_in_scores(Graph& graph, const std::string& loss, std::vector<std::string>& notes) {
  if (graph.outputs.empty()) refuse("its graph has no output", graph.origin);
  const std::vector<std::string> others(graph.outputs.begin() + 1, graph.outputs.end());
  if (!others.empty())
    notes.push_back(
        format("the loss is of the first output, {}: neither the model nor an export has {}",
               graph.outputs[0], fmt::join(others, ", ")));
  graph.outputs.resize(1);
  const GraphNode* last = producer_of(graph, graph.outputs[0]);
  Joined joined;
  if (last != nullptr && has_within(loss, last->op) && !last->inputs.empty()) {
    joined = {last->op, place_of(graph, *last),
              ops::attribute_int(last->attributes, "axis", graph.opset < 13 ? 1 : -1),
              graph.opset < 13};
    notes.push_back(
        format("{} {} is joined with the loss: an export gives {}, the scores before "
               "it, instead of {}",
               last->op, last->name, last->inputs[0], graph.outputs[0]));
    graph.outputs[0] = last->inputs[0];
  }
  put_in_order(graph);
  return joined;
}

void check_joined(const Joined& joined, const ops::Shape& scores) {
  if (joined.op != "Softmax" && joined.op != "LogSoftmax") return;
  if (joined.axis < -scores.rank() || joined.axis >= scores.rank())
    refuse(
        format("it is over axis {}, which {} does not have", joined.axis, ops::to_string(scores)),
        joined.where);
  const int64_t classes = scores.rank() == 3 ? 2 : 1;
  const int64_t axis = joined.axis < 0 ? joined.axis + scores.rank() : joined.axis;
  bool is_over_more = false;
  for (int64_t behind = axis + 1; joined.to_the_last && behind < scores.rank(); ++behind)
    is_over_more = is_over_more || scores[static_cast<int>(behind)] != 1;
  if (axis != classes || is_over_more)
    refuse(
        format("it is over axis {}{} of {}, but the classes of cross-entropy are axis {}; export "
               "the model without it",
               axis, joined.to_the_last ? " and all after it" : "", ops::to_string(scores),
               classes),
        joined.where);
}

void replace_head(Graph& graph, int64_t classes, std::vector<std::string>& notes) {
  const Head head = find_head(graph);
  ops::Shape shape = head.weight.shape;
  if (shape.rank() != 2)
    refuse(format("{} has the shape {}, but a head's weight has two axes",
                  head.weight.values.back(), ops::to_string(shape)),
           graph.origin);
  const int64_t before = shape[static_cast<int>(head.outputs_axis)];
  const int64_t fan_in = shape[1 - static_cast<int>(head.outputs_axis)];
  shape[static_cast<int>(head.outputs_axis)] = classes;
  begin_anew(graph, head.weight, shape, fan_in);
  if (head.bias && head.bias->shape.elements() == before)  // else it is one number for all
    begin_anew(graph, *head.bias, {classes}, fan_in);
  notes.push_back(
      format("the head {} has {} classes instead of {}", head.product, classes, before));
}

void train_batch_norms(Graph& graph) {
  std::set<std::string> taken;
  for (GraphNode& node : graph.nodes) {
    if (node.op != "BatchNormalization") continue;
    // Each has running statistics of its own, even if they begin alike.
    for (size_t i = 3; i < node.inputs.size(); ++i) {
      const std::string shared = node.inputs[i];
      if (taken.insert(shared).second || !is_stored(graph, shared)) continue;
      node.inputs[i] = format("{} of {}", shared, node.name);
      graph.initializers.emplace(node.inputs[i], graph.initializers.at(shared));
    }
    node.attributes["training_mode"] = int64_t{1};
    node.outputs.resize(1);
  }
}

void report_folded_norms(const Graph& graph, std::vector<std::string>& notes) {
  constexpr int kFew = 8;
  int convolutions = 0;
  for (const GraphNode& node : graph.nodes) {
    if (node.op == "BatchNormalization" || (node.op == "Conv" && node.inputs.size() < 3)) return;
    convolutions += node.op == "Conv" ? 1 : 0;
  }
  if (convolutions >= kFew)
    notes.push_back(
        format("all {} convolutions have a bias and none a batch normalisation: those that there "
               "were are folded into their weights and train as a part of them",
               convolutions));
}

}  // namespace kerf::partitioner::onnx
