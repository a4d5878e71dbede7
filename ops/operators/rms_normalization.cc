#include "ops/operators/rms_normalization.h"

namespace kerf::ops {

RmsNormalization::RmsNormalization(const NodeFacts& facts)
    : BoundOperator("RMSNormalization", facts),
      epsilon_(static_cast<float>(attribute_float(facts.attributes, "epsilon", 1e-5))) {
  for (const Operand& operand : inputs()) want_float32("RMSNormalization", operand, "all inputs");
  const Shape& x = shape(0);
  const int first =
      resolved_axis("RMSNormalization", attribute_int(facts.attributes, "axis", -1), x.rank());
  const Shape row(std::vector<int64_t>(x.begin() + first, x.end()));
  if (row.batched() || row.elements() < 1 || !(shape(1) == row))
    throw Error(ErrorCode::kUsage,
                format("RMSNormalization of {} from axis {} on wants a scale of {}, of an element "
                       "at least and without the batch, not {}: expand what ONNX would repeat, "
                       "which is not done here",
                       to_string(x), first, to_string(row), to_string(shape(1))));
  if (input(1).in_input_gradient())
    throw Error(ErrorCode::kUsage, "RMSNormalization has a gradient of scale only as a parameter");
  if (attribute_int(facts.attributes, "stash_type", 1) != 1)
    throw Error(ErrorCode::kUsage, "RMSNormalization computes in float32: stash_type must be 1");
  space_.axes = axes_of_tensor(x);
  std::vector<std::vector<int>> of_row;
  for (int axis = first; axis < x.rank(); ++axis) {
    of_row.push_back({axis});
    space_.axes[static_cast<size_t>(axis)].undivided = "a row's mean square needs all of it";
  }
  space_.inputs = {same_axes(x.rank()), operand_axes(of_row)};
  space_.outputs = {same_axes(x.rank())};
  outputs_ = {input(0).spec};
}

Cost RmsNormalization::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.inputs[0].shape.elements());
  const double row = static_cast<double>(local.inputs[1].shape.elements());
  return {4 * n, 8 * n, row, 12 * n + 4 * row, 20 * n + 8 * row, 8 * row};
}

BackwardReads RmsNormalization::backward_reads() const {
  BackwardReads reads;
  reads.inputs_for_input_gradient = {0, 1};
  reads.output_gradients_for_weight_gradient = false;
  return reads;
}

size_t RmsNormalization::reserve_bytes(const LocalSpecs& local) const {
  const int64_t row = local.inputs[1].shape.elements();
  return row == 0 ? 0 : static_cast<size_t>(local.inputs[0].shape.elements() / row) * sizeof(float);
}

size_t RmsNormalization::handed_bytes(const LocalSpecs& local) const {
  if (!input(1).in_weight_gradient()) return 0;
  return static_cast<size_t>(local.inputs[1].shape.elements()) * sizeof(float);
}

OperatorDefinitions define_rms_normalization() {
  return {{.name = "RMSNormalization",
           .inputs = {{"X"}, {"scale"}},
           .outputs = {{"Y"}},
           .attributes = {{"axis"}, {"epsilon", AttributeType::kFloat}, {"stash_type"}},
           .bind = bind_as<RmsNormalization>,
           .first_opset = 23}};
}

}  // namespace kerf::ops
