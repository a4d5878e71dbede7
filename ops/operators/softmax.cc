#include "ops/operators/softmax.h"

#include "ops/image_format.h"

namespace kerf::ops {

Softmax::Softmax(const NodeFacts& facts, const char* name, SoftmaxKind kind)
    : BoundOperator(name, facts), kind_(kind) {
  want_float32(name, input(0), "input");
  axis_ = resolved_axis(name, attribute_int(facts.attributes, "axis", -1), shape(0).rank());
  if (shape(0)[axis_] < 0)
    throw Error(ErrorCode::kUsage, format("{} of {} along axis {}, the batch: name another", name,
                                          to_string(shape(0)), axis_));
  outputs_ = {input(0).spec};
  const OperandMap map = same_axes(shape(0).rank());
  space_ = {axes_of_image(image_format(facts), shape(0)), {map}, {map}};
  space_.axes[static_cast<size_t>(axis_)].undivided =
      format("{} compares along axis {}, which it needs whole", name, axis_);
  if (kind != SoftmaxKind::kHardmax)
    space_.axes[static_cast<size_t>(axis_)].undivided =
        format("{} sums along axis {}, which it needs whole", name, axis_);
}

Cost Softmax::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.outputs[0].shape.elements());
  if (kind_ == SoftmaxKind::kHardmax) return {n, 0, 0, 8 * n, 4 * n, 0};
  return {4 * n, 4 * n, 0, 8 * n, 12 * n, 0};
}

BackwardReads Softmax::backward_reads() const {
  BackwardReads reads;
  if (kind_ != SoftmaxKind::kHardmax) reads.outputs_for_input_gradient = {0};
  return reads;
}

OperatorDefinitions define_softmax() {
  const auto defined = [](const char* name, SoftmaxKind kind) {
    OperatorDefinition definition{.name = name, .inputs = {{"input"}}, .outputs = {{"output"}}};
    definition.attributes = {{"axis"}, format_attribute()};
    definition.bind = [=](const NodeFacts& facts) {
      return std::make_unique<Softmax>(facts, name, kind);
    };
    definition.channels_last = [](const NodeFacts& facts) {
      return images_along_axis_channels_last(facts, -1);
    };
    definition.first_opset = 13;  // before it, all axes from `axis` on were one
    return definition;
  };
  return {defined("Softmax", SoftmaxKind::kSoftmax),
          defined("LogSoftmax", SoftmaxKind::kLogSoftmax),
          defined("Hardmax", SoftmaxKind::kHardmax)};
}

}  // namespace kerf::ops
