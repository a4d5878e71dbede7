#include "ops/operators/softmax.h"

#include "ops/image_format.h"

namespace kerf::ops {

Softmax::Softmax(const NodeFacts& facts) : BoundOperator("Softmax", facts) {
  want_float32("Softmax", input(0), "input");
  axis_ = resolved_axis("Softmax", attribute_int(facts.attributes, "axis", -1), shape(0).rank());
  if (shape(0)[axis_] < 0)
    throw Error(ErrorCode::kUsage, format("Softmax of {} along axis {}, the batch: name another",
                                          to_string(shape(0)), axis_));
  outputs_ = {input(0).spec};
  const OperandMap map = same_axes(shape(0).rank());
  space_ = {axes_of_image(image_format(facts.attributes), shape(0)), {map}, {map}};
  space_.axes[static_cast<size_t>(axis_)].undivided =
      format("Softmax sums along axis {}, which it needs whole", axis_);
}

Cost Softmax::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.outputs[0].shape.elements());
  return {4 * n, 4 * n, 0, 8 * n, 12 * n, 0};
}

BackwardReads Softmax::backward_reads() const {
  BackwardReads reads;
  reads.outputs_for_input_gradient = {0};
  return reads;
}

OperatorDefinitions define_softmax() {
  return {{.name = "Softmax",
           .inputs = {{"input"}},
           .outputs = {{"output"}},
           .attributes = {{"axis"}, format_attribute()},
           .bind = bind_as<Softmax>,
           .channels_last =
               [](const NodeFacts& facts) { return images_along_axis_channels_last(facts, -1); },
           .first_opset = 13}};  // before it, all axes from `axis` on were one
}

}  // namespace kerf::ops
