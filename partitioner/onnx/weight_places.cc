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

// Such give, or repeat, a part of their first input, and no more of it than that.
bool is_part(const std::string& op) {
  static const std::set<std::string> kParts{"Slice", "Gather", "Split", "Expand", "Tile"};
  return kParts.contains(op);
}

// Of several inputs, to each of which a gradient goes.
bool joins(const std::string& op) {
  static const std::set<std::string> kJoins{"Add",    "Sub", "Mul", "Div", "Sum",  "Mean",
                                            "Concat", "Max", "Min", "Pow", "Where"};
  return kJoins.contains(op);
}

bool shifts(const std::string& op) { return op == "Add" || op == "Mul"; }

class PlaceFinder {
 public:
  explicit PlaceFinder(const Graph& graph) : graph_(graph) {
    for (const auto& [name, stored] : graph.initializers) constants_.insert(name);
  }

  WeightPlaces find() {
    for (const GraphNode& node : graph_.nodes) visit(node);
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      if (node->inputs.empty() || node->outputs.empty()) continue;
      for (auto* places : {&found_.joined, &found_.beside})
        if ((is_view(node->op) || is_part(node->op)) && places->contains(node->outputs[0]))
          places->insert(node->inputs[0]);
      if (!is_view(node->op)) continue;
      for (auto* places : {&found_.operands, &found_.shifts})
        if (places->contains(node->outputs[0])) places->insert(node->inputs[0]);
    }
    return std::move(found_);
  }

 private:
  bool is_constant(const std::string& name) const { return constants_.contains(name); }
  bool is_weighted(const std::string& name) const { return weighted_.contains(name); }
  bool is_given_by(const std::string& op, const std::string& name) const {
    const auto at = ops_.find(name);
    return at != ops_.end() && at->second == op;
  }

  void visit(const GraphNode& node) {
    if (node.outputs.empty()) return;
    for (const std::string& output : node.outputs) ops_[output] = node.op;
    const auto is_literal = [&](const std::string& name) {
      return name.empty() || found_.literals.contains(name);
    };
    if (node.op == "Constant" ||
        (!node.inputs.empty() && std::all_of(node.inputs.begin(), node.inputs.end(), is_literal)))
      found_.literals.insert(node.outputs.begin(), node.outputs.end());
    const auto is_known = [&](const std::string& name) {
      return name.empty() || is_constant(name);
    };
    if (node.op == "Constant" ||
        (!node.inputs.empty() && std::all_of(node.inputs.begin(), node.inputs.end(), is_known)))
      constants_.insert(node.outputs.begin(), node.outputs.end());
    const bool reached =
        std::any_of(node.inputs.begin(), node.inputs.end(),
                    [this](const std::string& name) { return reached_.contains(name); });
    if (joins(node.op))
      (reached ? found_.joined : found_.beside).insert(node.inputs.begin(), node.inputs.end());
    const bool follows = follows_weights(node);
    if (follows) weighted_.insert(node.outputs[0]);
    if (follows || reached) reached_.insert(node.outputs.begin(), node.outputs.end());
  }

  // Whether what it gives is computed with weights last: a constant added to that is a bias. A
  // product of two that are computed is none, and masks are what is added to it.
  bool follows_weights(const GraphNode& node) {
    bool with_weights = false;
    if (const auto row = places().find(node.op); row != places().end())
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (!row->second.contains(i)) continue;
        found_.operands.insert(node.inputs[i]);
        if (node.op == "Gather") found_.tables.insert(node.inputs[i]);
        with_weights = with_weights || is_constant(node.inputs[i]);
      }
    if (with_weights || node.inputs.empty()) return with_weights;
    if (shifts(node.op)) {
      if (std::none_of(node.inputs.begin(), node.inputs.end(),
                       [this](const std::string& name) { return is_weighted(name); }))
        return false;
      found_.shifts.insert(node.inputs.begin(), node.inputs.end());
      return true;
    }
    if (standardizes(node)) return true;
    if (node.op == "Concat")  // of rows of its own beside them, as a class token is
      return std::any_of(node.inputs.begin(), node.inputs.end(),
                         [this](const std::string& name) { return is_weighted(name); });
    return (is_view(node.op) || node.op == "Gather" || normalizes(node)) &&
           is_weighted(node.inputs[0]);
  }

  // Of two values that are computed: a normalisation in pieces centres and divides so.
  bool normalizes(const GraphNode& node) const {
    return (node.op == "Sub" || node.op == "Div") &&
           std::none_of(node.inputs.begin(), node.inputs.end(),
                        [this](const std::string& name) { return is_constant(name); });
  }
  // By its deviation, of whatever it is: scale and shift are what follows.
  bool standardizes(const GraphNode& node) const {
    return node.op == "Div" && node.inputs.size() == 2 && is_given_by("Sub", node.inputs[0]) &&
           is_given_by("Sqrt", node.inputs[1]);
  }

  const Graph& graph_;
  WeightPlaces found_;
  std::set<std::string> constants_;  // names of what is the same for all samples
  std::set<std::string> weighted_;   // and of what is computed with weights last
  std::set<std::string> reached_;    // and of what is computed with weights, and after
  std::map<std::string, std::string> ops_;
};

}  // namespace

WeightPlaces weight_places(const Graph& graph) { return PlaceFinder(graph).find(); }

}  // namespace kerf::partitioner::onnx
