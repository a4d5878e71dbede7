#include "ops/operators/layer_normalization.h"

namespace kerf::ops {

LayerNormalization::LayerNormalization(const NodeFacts& facts)
    : BoundOperator("LayerNormalization", facts),
      axis_(resolved_axis("LayerNormalization", attribute_int(facts.attributes, "axis", -1),
                          shape(0).rank())),
      epsilon_(static_cast<float>(attribute_float(facts.attributes, "epsilon", 1e-5))) {
  for (const Operand& operand : inputs()) want_float32("LayerNormalization", operand, "all inputs");
  const Shape& x = shape(0);
  const Shape row(std::vector<int64_t>(x.begin() + axis_, x.end()));
  if (row.batched() || row.elements() < 1)
    throw Error(ErrorCode::kUsage,
                format("LayerNormalization of {} cannot take axes {} and later "
                       "for a row: {}",
                       to_string(x), axis_,
                       row.batched() ? "the batch is among them" : "it has no element"));
  if (!(shape(1) == row) || (has(2) && !(shape(2) == row)))
    throw Error(ErrorCode::kUsage,
                format("LayerNormalization wants Scale and B of shape {}, not {} and {}: expand "
                       "what ONNX would repeat, which is not done here",
                       to_string(row), to_string(shape(1)), has(2) ? to_string(shape(2)) : "none"));
  for (int i = 1; i < static_cast<int>(inputs().size()); ++i)
    if (has(i) && input(i).in_input_gradient())
      throw Error(ErrorCode::kUsage,
                  "LayerNormalization has gradients of Scale and B only as parameters");
  if (attribute_int(facts.attributes, "stash_type", 1) != 1)
    throw Error(ErrorCode::kUsage, "LayerNormalization computes in float32: stash_type must be 1");

  space_.axes = axes_of_tensor(x);
  std::vector<std::vector<int>> of_row;
  std::vector<std::vector<int>> of_rows;
  Shape rows = x;
  for (int axis = 0; axis < x.rank(); ++axis) {
    of_rows.push_back(axis < axis_ ? std::vector<int>{axis} : std::vector<int>{});
    if (axis < axis_) continue;
    of_row.push_back({axis});
    rows[axis] = 1;
    space_.axes[static_cast<size_t>(axis)].undivided = "a row's mean needs all of it";
  }
  space_.inputs = {same_axes(x.rank()), operand_axes(of_row)};
  if (inputs().size() > 2) space_.inputs.push_back(operand_axes(of_row));
  outputs_ = {input(0).spec};
  space_.outputs = {same_axes(x.rank())};
  for (int i = 1; i < facts.outputs; ++i) {
    outputs_.push_back({DType::kFloat32, rows});
    space_.outputs.push_back(operand_axes(of_rows));
  }
}

Cost LayerNormalization::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.inputs[0].shape.elements());
  const double row = static_cast<double>(local.inputs[1].shape.elements());
  return {7 * n, 13 * n, 2 * row, 16 * n + 8 * row, 24 * n + 12 * row, 16 * row};
}

BackwardReads LayerNormalization::backward_reads() const {
  BackwardReads reads;
  reads.inputs_for_input_gradient = {0, 1};
  reads.output_gradients_for_weight_gradient = false;
  return reads;
}

size_t LayerNormalization::reserve_bytes(const LocalSpecs& local) const {
  const int64_t row = local.inputs[1].shape.elements();
  if (row == 0) return 0;
  return static_cast<size_t>(local.inputs[0].shape.elements() / row) * 2 * sizeof(float);
}

size_t LayerNormalization::handed_bytes(const LocalSpecs& local) const {
  const bool trained = input(1).in_weight_gradient() || (has(2) && input(2).in_weight_gradient());
  if (!trained) return 0;
  return static_cast<size_t>(local.inputs[1].shape.elements()) * 2 * sizeof(float);
}

OperatorDefinitions define_layer_normalization() {
  return {{.name = "LayerNormalization",
           .inputs = {{"X"}, {"Scale"}, {"B", FormalOperand::Count::kOptional}},
           .outputs = {{"Y"}, {"Mean"}, {"InvStdDev"}},
           .attributes = {{"axis"}, {"epsilon", AttributeType::kFloat}, {"stash_type"}},
           .bind = bind_as<LayerNormalization>,
           .first_opset = 17}};
}

}  // namespace kerf::ops
