#include "partitioner/onnx/pruned.h"

#include <algorithm>
#include <vector>

namespace kerf::partitioner::onnx {
namespace {

std::vector<bool> needed_nodes(const Model& model) {
  std::vector<bool> needed(static_cast<size_t>(model.nodes()), false);
  const auto need = [&](NodeId node) {
    if (node >= 0) needed[static_cast<size_t>(node)] = true;
  };
  need(model.loss());
  for (const Result& result : model.results()) need(model.value(result.value).producer);
  for (NodeId id = model.nodes() - 1; id >= 0; --id)
    for (const ValueId input : model.node(id).inputs)
      if (needed[static_cast<size_t>(id)] && input >= 0) need(model.value(input).producer);
  return needed;
}

}  // namespace

Model pruned(const Model& model) {
  const std::vector<bool> needed = needed_nodes(model);
  if (!model.names_results() || std::find(needed.begin(), needed.end(), false) == needed.end())
    return model;
  Model to(model.name());
  if (model.has_whole_inputs()) to.take_whole_inputs();
  std::vector<ValueId> known(static_cast<size_t>(model.values()), -1);
  const auto is_read = [&](ValueId id) {
    return std::any_of(model.uses(id).begin(), model.uses(id).end(),
                       [&](const Use& use) { return needed[static_cast<size_t>(use.node)]; });
  };
  for (ValueId id = 0; id < model.values(); ++id) {
    const Value& value = model.value(id);
    if (value.producer < 0) {
      if (!ops::is_kept(value.role) || is_read(id))
        known[static_cast<size_t>(id)] = to.add_copy(value);
    } else if (value.output == 0 && needed[static_cast<size_t>(value.producer)]) {
      const Node& node = model.node(value.producer);
      std::vector<ValueId> inputs;
      for (const ValueId input : node.inputs)
        inputs.push_back(input < 0 ? -1 : known[static_cast<size_t>(input)]);
      const NodeId made = to.add_node(node.name, node.op, node.attributes, inputs,
                                      static_cast<int>(node.outputs.size()));
      to.set_key(made, node.key);
      for (size_t i = 0; i < node.outputs.size(); ++i)
        known[static_cast<size_t>(node.outputs[i])] = to.node(made).outputs[i];
    }
  }
  for (const Result& result : model.results())
    to.add_result(result.name, known[static_cast<size_t>(result.value)]);
  return to;
}

}  // namespace kerf::partitioner::onnx
