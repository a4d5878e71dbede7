#include "partitioner/onnx/training_form.h"

#include <algorithm>
#include <cmath>
#include <set>

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

// The layer that gives an output: its product, and what adds its bias if that is another node.
struct Head {
  GraphNode* product = nullptr;
  std::string weight;
  size_t outputs_axis = 0;  // of the weight
  std::string bias;         // empty: none
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
  while (GraphNode* node = producer_of(graph, value)) {
    if ((node->op == "Gemm" || node->op == "MatMul") && node->inputs.size() >= 2 &&
        is_stored(graph, node->inputs[1])) {
      head.product = node;
      head.weight = node->inputs[1];
      const bool turned =
          node->op == "Gemm" && ops::attribute_int(node->attributes, "transB", 0) != 0;
      head.outputs_axis = turned ? 0 : 1;
      if (node->inputs.size() > 2) head.bias = node->inputs[2];
      return head;
    }
    if (node->op == "Add" && node->inputs.size() == 2 && head.bias.empty()) {
      const size_t stored = is_stored(graph, node->inputs[1]) ? 1 : 0;
      if (!is_stored(graph, node->inputs[stored])) break;
      head.bias = node->inputs[stored];
      value = node->inputs[1 - stored];
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

void begin_anew(Graph& graph, const std::string& name, const ops::Shape& shape, int64_t fan_in) {
  if (uses_of(graph, name) != 1)
    refuse(format("{} is used elsewhere too, so the head cannot be replaced", name), graph.origin);
  Stored& stored = graph.initializers.at(name);
  stored.spec = {ops::DType::kFloat32, shape};
  stored.in_file = ops::DType::kFloat32;
  stored.contents = nullptr;
  stored.initializer = {ops::Initializer::Kind::kUniform,
                        1.0 / std::sqrt(static_cast<double>(fan_in))};
}

}  // namespace

Joined end_in_scores(Graph& graph, const std::string& loss, std::vector<std::string>& notes) {
  if (graph.outputs.empty()) refuse("its graph has no output", graph.origin);
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
  const int64_t classes = scores.rank() == 3 ? 2 : 1;
  const int64_t axis = joined.axis < 0 ? joined.axis + scores.rank() : joined.axis;
  if (axis != classes || (joined.to_the_last && axis + 1 != scores.rank()))
    refuse(
        format("it is over axis {}{} of {}, but the classes of cross-entropy are axis {}; export "
               "the model without it",
               axis, joined.to_the_last ? " and all after it" : "", ops::to_string(scores),
               classes),
        joined.where);
}

void replace_head(Graph& graph, int64_t classes, std::vector<std::string>& notes) {
  const Head head = find_head(graph);
  ops::Shape shape = graph.initializers.at(head.weight).spec.shape;
  if (shape.rank() != 2)
    refuse(format("{} has the shape {}, but a head's weight has two axes", head.weight,
                  ops::to_string(shape)),
           graph.origin);
  const int64_t before = shape[static_cast<int>(head.outputs_axis)];
  const int64_t fan_in = shape[1 - static_cast<int>(head.outputs_axis)];
  shape[static_cast<int>(head.outputs_axis)] = classes;
  begin_anew(graph, head.weight, shape, fan_in);
  if (!head.bias.empty() && is_stored(graph, head.bias))
    begin_anew(graph, head.bias, {classes}, fan_in);
  notes.push_back(
      format("the head {} has {} classes instead of {}", head.product->name, classes, before));
}

void train_batch_norms(Graph& graph) {
  for (GraphNode& node : graph.nodes) {
    if (node.op != "BatchNormalization") continue;
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
