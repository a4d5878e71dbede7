#include "partitioner/cost.h"

#include <algorithm>

namespace kerf::partitioner {

namespace {

ops::ValueSpec local_spec(const ops::ValueSpec& spec, const ops::Box& box, int64_t samples) {
  return {spec.dtype, ops::local_shape(box, spec.shape).with_batch(samples)};
}

double roofline(double flops, double bytes, const DeviceSpeed& speed) {
  return std::max(flops / speed.flops_per_second, bytes / speed.bytes_per_second) +
         speed.launch_seconds;
}

// Whether the node has an input of this kind (parameter or activation) into which a gradient flows.
bool has_trained(const Model& model, const Node& node, bool parameter) {
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
    const bool is_parameter = model.value(id).role == ValueRole::kParameter;
    return is_parameter == parameter && model.needs_gradient(id);
  });
}

}  // namespace

NodeCost node_cost(const Model& model, NodeId id, const ops::Box& box, int64_t samples,
                   const DeviceSpeed& speed) {
  const Node& node = model.node(id);
  const ops::Operator& op = model.op(id);
  NodeCost result;
  if (op.aliases() || box.empty()) return result;
  const std::vector<ops::ValueSpec> inputs = model.input_specs(id);
  const std::vector<ops::ValueSpec> outputs = model.output_specs(id);
  const ops::SplitRule rule = op.split(node.attributes, inputs, outputs.front(), box);
  if (rule.kind != ops::SplitRule::Kind::kBoxes)
    throw Error(
        ErrorCode::kUsage,
        format("{} cannot compute {} by itself: {}", node.op, ops::to_string(box), rule.reason),
        format("{}: node {}", model.name(), node.name));

  std::vector<ops::ValueSpec> local_inputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    local_inputs.push_back(local_spec(inputs[i], rule.inputs[i].box, samples));
  std::vector<ops::ValueSpec> local_outputs;
  for (size_t i = 0; i < outputs.size(); ++i)
    local_outputs.push_back(
        local_spec(outputs[i], i == 0 ? box : ops::Box::whole(outputs[i].shape.rank()), samples));

  result.work = op.cost(node.attributes, local_inputs, local_outputs);
  ops::Cost& work = result.work;
  if (!has_trained(model, node, false)) work.input_gradient_flops = work.input_gradient_bytes = 0;
  if (!has_trained(model, node, true)) work.weight_gradient_flops = work.weight_gradient_bytes = 0;
  result.forward_seconds = roofline(work.forward_flops, work.forward_bytes, speed);
  if (work.input_gradient_flops + work.input_gradient_bytes > 0)
    result.input_gradient_seconds =
        roofline(work.input_gradient_flops, work.input_gradient_bytes, speed);
  if (work.weight_gradient_flops + work.weight_gradient_bytes > 0)
    result.weight_gradient_seconds =
        roofline(work.weight_gradient_flops, work.weight_gradient_bytes, speed);
  return result;
}

std::vector<int64_t> micro_batch_sizes(int64_t batch, int micro_batches) {
  KERF_CHECK(batch >= 0 && micro_batches >= 1, "{} rows over {} micro-batches", batch,
             micro_batches);
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < micro_batches; ++i)
    sizes.push_back(batch / micro_batches + (i < batch % micro_batches ? 1 : 0));
  return sizes;
}

}  // namespace kerf::partitioner
