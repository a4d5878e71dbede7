#include "partitioner/onnx/export_scope.h"

#include <algorithm>
#include <variant>

#include "partitioner/onnx/export.h"
#include "partitioner/onnx/graph.h"
#include "partitioner/onnx/own_operators.h"

namespace kerf::partitioner::onnx {
namespace {

// Since when ONNX has what this node says, where that is newer than its operator.
int opset_of_attributes(const Node& node) {
  if (node.op == "AveragePool" && node.attributes.contains("dilations")) return 19;
  if (node.op == "Pad" && ops::attribute_string(node.attributes, "mode", "constant") == "wrap")
    return 19;
  return 1;
}

}  // namespace

std::string place_of(const Model& model, const Node& node) {
  return format("{}: node {} ({})", model.name(), node.name, node.op);
}

ExportScope::ExportScope(const Model& model)
    : model_(model), opset_(kExportedOpset), results_(model.results()) {
  if (!model.names_results() && model.loss() >= 0)
    results_ = {{"scores", model.node(model.loss()).inputs[0]}};
  for (Result& result : results_) result.value = behind_dropouts(result.value);
  mark_needed();
  choose_opset();
}

ValueId ExportScope::behind_dropouts(ValueId id) const {
  const NodeId producer = model_.value(id).producer;
  if (producer < 0 || model_.node(producer).op != "Dropout") return id;
  return behind_dropouts(model_.node(producer).inputs[0]);
}

bool ExportScope::has(const Node& node) const {
  return has(node.outputs[0]) && node.op != "Dropout";
}

std::vector<ValueId> ExportScope::kept() const {
  std::vector<ValueId> ids;
  for (const ValueId id : model_.kept_values())
    if (has(id)) ids.push_back(id);
  return ids;
}

void ExportScope::mark_needed() {
  needed_.assign(static_cast<size_t>(model_.values()), false);
  std::vector<ValueId> open;
  const auto need = [&](ValueId id) {
    if (id < 0 || has(id)) return;
    needed_[static_cast<size_t>(id)] = true;
    open.push_back(id);
  };
  for (const Result& result : results_) need(result.value);
  while (!open.empty()) {
    const NodeId producer = model_.value(open.back()).producer;
    open.pop_back();
    if (producer < 0) continue;
    need(model_.node(producer).outputs[0]);  // by which a node is known to be needed
    for (const ValueId input : model_.node(producer).inputs)
      need(input < 0 ? -1 : behind_dropouts(input));
  }
}

void ExportScope::choose_opset() {
  for (NodeId id = 0; id < model_.nodes(); ++id) {
    const Node& node = model_.node(id);
    if (!has(node)) continue;
    if (is_own_operator(node.op)) refuse("ONNX has no such operator", place_of(model_, node));
    opset_ = std::max({opset_, ops::find_operator(node.op).first_opset, opset_of_attributes(node)});
  }
}

}  // namespace kerf::partitioner::onnx
