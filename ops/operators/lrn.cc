#include "ops/operators/lrn.h"

namespace kerf::ops {

Lrn::Lrn(const NodeFacts& facts)
    : BoundOperator("LRN", facts),
      format_(image_format(facts)),
      size_(attribute_int(facts.attributes, "size", 0)),
      alpha_(static_cast<float>(attribute_float(facts.attributes, "alpha", 1e-4))),
      beta_(static_cast<float>(attribute_float(facts.attributes, "beta", 0.75))),
      bias_(static_cast<float>(attribute_float(facts.attributes, "bias", 1))) {
  want_float32("LRN", input(0), "X");
  const Shape x = onnx_shape(format_, shape(0));
  if (x.rank() < 2 || x[1] < 1)
    throw Error(ErrorCode::kUsage, format("LRN wants X [N, C, ...], not {}", to_string(x)));
  if (size_ < 1 || size_ > (int64_t{1} << 20))
    throw Error(ErrorCode::kUsage,
                format("LRN: attribute 'size' is from 1 to 1048576, not {}", size_));
  channels_ = x[1];
  outputs_ = {input(0).spec};
  space_.axes = axes_of_tensor(x);
  for (size_t i = 1; i < space_.axes.size(); ++i) {
    IterationAxis& axis = space_.axes[i];
    axis.kind = i == 1 ? AxisKind::kFeature : AxisKind::kSpace;
    axis.name = i == 1 ? "channels" : format("axis {}", i);
    axis.contiguous = i == 1;
  }
  OperandMap map = same_axes(x.rank());
  space_.outputs = {stored_axes(format_, map)};
  map.axes[1].window = SlidingWindow{.kernel = size_, .pad = before()};
  space_.inputs = {stored_axes(format_, map)};
}

Cost Lrn::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.outputs[0].shape.elements());
  const double x = static_cast<double>(local.inputs[0].shape.elements());
  return {15 * n, 16 * n, 0, 4 * (x + n), 4 * (2 * x + n), 0};
}

BackwardReads Lrn::backward_reads() const {
  BackwardReads reads;
  reads.inputs_for_input_gradient = {0};
  return reads;
}

OperatorDefinitions define_lrn() {
  return {{.name = "LRN",
           .inputs = {{"X"}},
           .outputs = {{"Y"}},
           .attributes = {{"alpha", AttributeType::kFloat},
                          {"beta", AttributeType::kFloat},
                          {"bias", AttributeType::kFloat},
                          {"size"},
                          format_attribute()},
           .bind = bind_as<Lrn>,
           .channels_last = image_channels_last}};
}

}  // namespace kerf::ops
