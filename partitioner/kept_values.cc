#include "partitioner/kept_values.h"

#include <algorithm>

#include "partitioner/at.h"

namespace kerf::partitioner {
namespace {

ValueId root_of(const Model& model, ValueId value) {
  for (;;) {
    const NodeId producer = model.value(value).producer;
    if (producer < 0 || !model.op(producer).aliases()) return value;
    value = model.node(producer).inputs[0];
  }
}

}  // namespace

std::set<ValueId> kept_by(const Model& model, NodeId id) {
  const Node& node = model.node(id);
  const ops::BoundOperator& op = model.op(id);
  const ops::BackwardReads reads = op.backward_reads();
  std::set<ValueId> kept;
  const auto keep = [&](const std::vector<int>& which, const std::vector<ValueId>& values) {
    for (const int i : which)
      if (const ValueId value = values[at(i)]; value >= 0 && !ops::is_kept(model.value(value).role))
        kept.insert(root_of(model, value));
  };
  const auto& operands = op.inputs();
  if (std::any_of(operands.begin(), operands.end(),
                  [](const auto& operand) { return operand.in_input_gradient(); })) {
    keep(reads.inputs_for_input_gradient, node.inputs);
    keep(reads.outputs_for_input_gradient, node.outputs);
  }
  if (std::any_of(operands.begin(), operands.end(),
                  [](const auto& operand) { return operand.in_weight_gradient(); })) {
    keep(reads.inputs_for_weight_gradient, node.inputs);
    keep(reads.outputs_for_weight_gradient, node.outputs);
  }
  return kept;
}

}  // namespace kerf::partitioner
