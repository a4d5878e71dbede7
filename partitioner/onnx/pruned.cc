#include "partitioner/onnx/pruned.h"

#include <algorithm>
#include <utility>

#include "runtime/error.h"

namespace kerf::partitioner::onnx {
namespace {

std::vector<bool> needed_nodes(const Model& model) {
  std::vector<bool> needed(static_cast<size_t>(model.nodes()), false);
  for (const Result& result : model.results())
    if (const NodeId producer = model.value(result.value).producer; producer >= 0)
      needed[static_cast<size_t>(producer)] = true;
  if (model.loss() >= 0) needed[static_cast<size_t>(model.loss())] = true;
  for (NodeId id = model.nodes() - 1; id >= 0; --id) {
    if (!needed[static_cast<size_t>(id)]) continue;
    for (const ValueId input : model.node(id).inputs)
      if (const NodeId producer = input < 0 ? -1 : model.value(input).producer; producer >= 0)
        needed[static_cast<size_t>(producer)] = true;
  }
  return needed;
}

}  // namespace

Model pruned(const Model& model, std::vector<std::string>& notes) {
  const std::vector<bool> needed = needed_nodes(model);
  const auto is_idle = [&](ValueId id) {
    return model.value(id).role == Role::kInput && model.uses(id).empty();
  };
  bool all = std::find(needed.begin(), needed.end(), false) == needed.end();
  for (ValueId id = 0; id < model.values(); ++id) all = all && !is_idle(id);
  if (all) return model;
  const auto is_needed = [&](const Use& use) { return needed[static_cast<size_t>(use.node)]; };
  Model made(model.name());
  if (model.has_whole_inputs()) made.take_whole_inputs();
  std::vector<ValueId> known(static_cast<size_t>(model.values()), -1);
  const auto now = [&](ValueId id) -> ValueId& { return known[static_cast<size_t>(id)]; };
  for (ValueId id = 0; id < model.values(); ++id) {
    const Value& value = model.value(id);
    if (value.producer < 0) {
      const auto& uses = model.uses(id);
      if ((uses.empty() && !is_idle(id)) || std::any_of(uses.begin(), uses.end(), is_needed))
        now(id) = made.add_copy(value);
      else if (value.role == Role::kInput)
        notes.push_back(format("input {} has no part in what the model answers", value.name));
      continue;
    }
    if (value.output != 0 || !needed[static_cast<size_t>(value.producer)]) continue;
    const Node& node = model.node(value.producer);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(input < 0 ? -1 : now(input));
    const NodeId copy = made.add_node(node.name, node.op, node.attributes, inputs,
                                      static_cast<int>(node.outputs.size()));
    made.set_key(copy, node.key);
    for (size_t i = 0; i < node.outputs.size(); ++i)
      now(node.outputs[i]) = made.node(copy).outputs[i];
  }
  if (model.names_results())
    for (const Result& result : model.results()) made.add_result(result.name, now(result.value));
  return made;
}

}  // namespace kerf::partitioner::onnx
