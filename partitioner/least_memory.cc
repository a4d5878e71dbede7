#include "partitioner/least_memory.h"

#include <algorithm>
#include <set>

#include "partitioner/gradients.h"

namespace kerf::partitioner {
namespace {

// An alias is its input.
ValueId root_of(const Model& model, ValueId value) {
  for (;;) {
    const NodeId producer = model.value(value).producer;
    if (producer < 0 || !model.op(producer).aliases()) return value;
    value = model.node(producer).inputs[0];
  }
}

// What gradients of this node's operands will read, where these have any.
void add_kept_by(const Model& model, NodeId id, std::set<ValueId>& kept) {
  const Node& node = model.node(id);
  const ops::BoundOperator& op = model.op(id);
  const ops::BackwardReads reads = op.backward_reads();
  const auto keep = [&](const std::vector<int>& which, const std::vector<ValueId>& values) {
    for (const int i : which)
      if (const ValueId value = values[static_cast<size_t>(i)];
          value >= 0 && !ops::is_kept(model.value(value).role))
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
}

}  // namespace

int64_t least_memory(const Model& model, const PlanRequest& request) {
  const Gradients gradients(model, request.trains);
  const auto bytes_of = [&](ValueId value, int64_t samples) {
    return static_cast<int64_t>(model.value(value).spec.bytes(samples));
  };
  int64_t persistent = 0;
  int64_t of_gradients = 0;
  for (const ValueId id : model.kept_values()) {
    const int64_t bytes = model.uses(id).empty() ? 0 : bytes_of(id, 0);
    persistent += bytes;
    if (!gradients.of(id)) continue;
    persistent += bytes * request.setting.optimizer_states;
    of_gradients += bytes;
  }
  std::set<ValueId> kept;
  for (NodeId node = 0; node < model.nodes(); ++node)
    if (gradients.through(node)) add_kept_by(model, node, kept);
  int64_t of_values = 0;
  for (const ValueId value : kept) of_values += bytes_of(value, request.largest_micro_batch());
  return persistent + (request.micro_batches == 1 ? std::max(of_gradients, of_values)
                                                  : of_gradients + of_values);
}

bool exceeds_all_caps(int64_t bytes, const PlanRequest& request) {
  int64_t left = bytes;
  for (int worker = 0; worker < request.workers_bound(); ++worker) {
    const auto cap = request.cap_of(worker);
    if (!cap || *cap >= left) return false;
    left -= *cap;
  }
  return true;
}

bool is_out_of_reach(const Model& model, const PlanRequest& request) {
  return model.nodes() > kFewNodes && exceeds_all_caps(least_memory(model, request), request);
}

}  // namespace kerf::partitioner
