#include "ops/operators/concat.h"

#include "ops/image_format.h"

namespace kerf::ops {
namespace {

int axis_of(const NodeFacts& facts, const Shape& shape) {
  if (!facts.attributes.contains("axis"))
    throw Error(ErrorCode::kUsage, "Concat needs its attribute 'axis'");
  const int axis =
      resolved_axis("Concat", attribute_int(facts.attributes, "axis", 0), shape.rank());
  if (shape[axis] < 0)
    throw Error(
        ErrorCode::kUsage,
        format("Concat of {} along axis {}, the batch: name another axis", to_string(shape), axis));
  return axis;
}

}  // namespace

Concat::Concat(const NodeFacts& facts)
    : BoundOperator("Concat", facts), axis_(axis_of(facts, shape(0))) {
  ValueSpec whole = input(0).spec;
  whole.shape[axis_] = 0;
  for (const Operand& operand : inputs()) {
    const ValueSpec& spec = operand.spec;
    Shape others = spec.shape;
    const bool same_rank = others.rank() == whole.shape.rank();
    if (same_rank) others[axis_] = whole.shape[axis_];
    if (!same_rank || !(others == whole.shape) || spec.dtype != whole.dtype ||
        spec.shape[axis_] < 0)
      throw Error(ErrorCode::kUsage, format("Concat along axis {} cannot join {} {} to {} {}",
                                            axis_, to_string(spec.dtype), to_string(spec.shape),
                                            to_string(whole.dtype), to_string(shape(0))));
    space_.inputs.push_back(same_axes(whole.shape.rank()));
    space_.inputs.back().axes[static_cast<size_t>(axis_)].offset = whole.shape[axis_];
    whole.shape[axis_] += spec.shape[axis_];
  }
  outputs_ = {whole};
  space_.axes = axes_of_image(image_format(facts), whole.shape);
  space_.outputs = {same_axes(whole.shape.rank())};
}

Cost Concat::cost(const LocalSpecs& local) const {
  Cost cost;
  for (size_t i = 0; i < local.inputs.size(); ++i) {
    const ValueSpec& part = local.inputs[i];
    const double bytes =
        2 * static_cast<double>(part.shape.elements()) * static_cast<double>(size_of(part.dtype));
    cost.forward_bytes += bytes;
    if (inputs()[i].in_input_gradient()) cost.input_gradient_bytes += bytes;
    if (inputs()[i].in_weight_gradient()) cost.weight_gradient_bytes += bytes;
  }
  return cost;
}

BackwardReads Concat::backward_reads() const { return {}; }

OperatorDefinitions define_concat() {
  return {{.name = "Concat",
           .inputs = {{"inputs", FormalOperand::Count::kVariadic}},
           .outputs = {{"concat_result"}},
           .attributes = {{"axis"}, format_attribute()},
           .bind = bind_as<Concat>,
           .channels_last = [](const NodeFacts& facts) {
             return images_along_axis_channels_last(facts, 0);
           }}};
}

}  // namespace kerf::ops
