#include "ops/operators/channel_statistics.h"

#include "ops/operators/batch_normalization.h"

namespace kerf::ops {
namespace {

std::vector<IterationAxis> channel_axes(const Shape& x) {
  std::vector<IterationAxis> axes = axes_of_tensor(x);
  for (int axis = 1; axis < x.rank(); ++axis) {
    IterationAxis& iterations = axes[static_cast<size_t>(axis)];
    iterations.kind = axis == 1 ? AxisKind::kFeature : AxisKind::kSpace;
    iterations.name = axis == 1 ? "channels" : format("axis {}", axis);
  }
  return axes;
}

void want_channels(std::string_view op, const Shape& x) {
  if (x.rank() < 2 || x[1] < 1)
    throw Error(ErrorCode::kUsage, format("{} wants X [N, C, ...], not {}", op, to_string(x)));
}

void want_shape(std::string_view op, std::string_view name, const Shape& shape,
                const Shape& wanted) {
  if (!(shape == wanted))
    throw Error(ErrorCode::kUsage, format("{} wants {} of shape {}, not {}", op, name,
                                          to_string(wanted), to_string(shape)));
}

}  // namespace

ChannelSum::ChannelSum(const NodeFacts& facts)
    : BoundOperator("ChannelSum", facts), format_(image_format(facts)) {
  want_float32("ChannelSum", input(0), "X");
  const Shape x = onnx_shape(format_, shape(0));
  want_channels("ChannelSum", x);
  outputs_ = {{DType::kFloat32, {2, x[1]}}};
  space_ = {
      channel_axes(x), {stored_axes(format_, same_axes(x.rank()))}, {operand_axes({{}, {1}})}};
}

Cost ChannelSum::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.inputs[0].shape.elements());
  return {n, 0, 0, 4 * n, 4 * n, 0};
}

CenteredSquareSum::CenteredSquareSum(const NodeFacts& facts)
    : BoundOperator("CenteredSquareSum", facts), format_(image_format(facts)) {
  for (const Operand& operand : inputs()) want_float32("CenteredSquareSum", operand, "all inputs");
  const Shape x = onnx_shape(format_, shape(0));
  want_channels("CenteredSquareSum", x);
  want_shape("CenteredSquareSum", "totals", shape(1), {2, x[1]});
  outputs_ = {{DType::kFloat32, {x[1]}}};
  space_ = {channel_axes(x),
            {stored_axes(format_, same_axes(x.rank())), operand_axes({{}, {1}})},
            {operand_axes({{1}})}};
}

Cost CenteredSquareSum::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.inputs[0].shape.elements());
  return {3 * n, 3 * n, 0, 4 * n, 12 * n, 0};
}

BackwardReads CenteredSquareSum::backward_reads() const {
  BackwardReads reads;
  reads.inputs_for_input_gradient = {0, 1};
  return reads;
}

ChannelStatistics::ChannelStatistics(const NodeFacts& facts)
    : BoundOperator("ChannelStatistics", facts),
      momentum_(momentum_of("ChannelStatistics", facts.attributes)) {
  for (const Operand& operand : inputs()) want_float32("ChannelStatistics", operand, "all inputs");
  const Shape channels{shape(1).rank() == 1 ? shape(1)[0] : 0};
  want_shape("ChannelStatistics", "totals", shape(0), {2, channels[0]});
  want_shape("ChannelStatistics", "squares", shape(1), channels);
  const OperandMap per_channel = operand_axes({{0}});
  space_.axes = {{AxisKind::kFeature, "channels", channels[0]}};
  space_.inputs = {operand_axes({{}, {0}}), per_channel};
  for (int i = 2; i < static_cast<int>(inputs().size()); ++i) {
    space_.inputs.push_back(per_channel);
    if (!has(i)) continue;
    want_shape("ChannelStatistics", "states", shape(i), channels);
    if (input(i).wants_gradient)
      throw Error(ErrorCode::kUsage,
                  "ChannelStatistics' input_mean and input_var are not trained: make them states");
  }
  space_.outputs = {per_channel, per_channel};
  outputs_.assign(2, {DType::kFloat32, channels});
}

Cost ChannelStatistics::cost(const LocalSpecs& local) const {
  const double c = static_cast<double>(local.outputs[0].shape.elements());
  return {2 * c, 6 * c, 0, 20 * c, 32 * c, 0};
}

BackwardReads ChannelStatistics::backward_reads() const {
  BackwardReads reads;
  reads.inputs_for_input_gradient = {0};
  reads.outputs_for_input_gradient = {0, 1};
  return reads;
}

std::vector<StateUpdate> ChannelStatistics::state_updates() const {
  std::vector<StateUpdate> updates;
  for (int i = 2; i < 4; ++i)
    if (has(i) && input(i).role == Role::kState) updates.push_back({i, i - 2, momentum_});
  return updates;
}

OperatorDefinitions define_channel_statistics() {
  constexpr auto kOptional = FormalOperand::Count::kOptional;
  return {{.name = "ChannelSum",
           .inputs = {{"X"}},
           .outputs = {{"totals"}},
           .attributes = {format_attribute()},
           .bind = bind_as<ChannelSum>,
           .channels_last = image_channels_last},
          {.name = "CenteredSquareSum",
           .inputs = {{"X"}, {"totals"}},
           .outputs = {{"squares"}},
           .attributes = {format_attribute()},
           .bind = bind_as<CenteredSquareSum>,
           .channels_last = image_channels_last},
          {.name = "ChannelStatistics",
           .inputs = {{"totals"}, {"squares"}, {"input_mean", kOptional}, {"input_var", kOptional}},
           .outputs = {{"mean"}, {"variance"}},
           .attributes = {{"momentum", AttributeType::kFloat}},
           .bind = bind_as<ChannelStatistics>}};
}

}  // namespace kerf::ops
