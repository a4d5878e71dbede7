#include "partitioner/onnx/export_nodes.h"

#include <algorithm>
#include <variant>

#include "partitioner/onnx/export_forms.h"
#include "partitioner/onnx/export_literals.h"

namespace kerf::partitioner::onnx {
namespace {

using Ints = std::vector<int64_t>;

class NodeExport {
 public:
  NodeExport(const Model& model, const ExportScope& scope, const Node& node, ExportMessage& message)
      : model_(model), scope_(scope), node_(node), message_(message) {}

  void add() {
    made_.set_op_type(node_.op);
    made_.set_name(node_.name);
    for (const ValueId input : node_.inputs)
      made_.add_input(input < 0 ? "" : message_.name_of(scope_.behind_dropouts(input)));
    add_outputs();
    for (const auto& [name, value] : node_.attributes) add_attribute(name, value);
    // How many equal parts, where no sizes are said.
    if (node_.op == "Split" && !node_.attributes.contains("split"))
      put_attribute("num_outputs", static_cast<int64_t>(made_.output_size()), made_);
    if (node_.op == "Attention") repeat_mask(model_, node_, made_, message_);
    if (has_samples_first(node_)) return add_steps_first(made_, message_);
    message_.add_node(made_);
  }

 private:
  // All parts of a Split, however many are read; of others, those before the last that is.
  void add_outputs() {
    size_t used = node_.op == "Split" ? node_.outputs.size() : 1;
    for (size_t i = 0; i < node_.outputs.size(); ++i)
      if (scope_.has(node_.outputs[i])) used = std::max(used, i + 1);
    for (size_t i = 0; i < used; ++i) made_.add_output(message_.name_of(node_.outputs[i]));
  }

  void add_attribute(const std::string& name, const ops::Attribute& value) {
    if (name == "training_mode") return;  // answers have the running statistics
    if (name == "layout" && has_samples_first(node_)) return;
    const auto& inputs = ops::find_operator(node_.op).input_attributes;
    const auto place = std::find_if(inputs.begin(), inputs.end(),
                                    [&](const auto& each) { return each.name == name; });
    if (place == inputs.end() || place->first_opset > scope_.opset())
      return put_attribute(name, value, made_);
    while (made_.input_size() <= place->input) made_.add_input("");
    made_.set_input(place->input, input_of(name, value));
  }

  std::string input_of(const std::string& name, const ops::Attribute& value) {
    const auto* list = std::get_if<Ints>(&value);
    if (node_.op == "Expand" && list != nullptr &&
        std::find(list->begin(), list->end(), ops::kBatch) != list->end())
      return add_batched_shape(node_.name, *list, message_);
    ops::TensorLiteral literal = literal_of_attribute(
        value, model_.value(node_.inputs[0]).spec.dtype, place_of(model_, node_));
    if (node_.op == "TopK" && name == "k") literal.shape = {1};  // one number, but no scalar
    return message_.add_constant(format("{}.{}", node_.name, name), literal);
  }

  const Model& model_;
  const ExportScope& scope_;
  const Node& node_;
  ExportMessage& message_;
  ::onnx::NodeProto made_;
};

}  // namespace

void add_node(const Model& model, const ExportScope& scope, const Node& node,
              ExportMessage& message) {
  NodeExport(model, scope, node, message).add();
}

}  // namespace kerf::partitioner::onnx
