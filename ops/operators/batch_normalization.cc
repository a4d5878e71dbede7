#include "ops/operators/batch_normalization.h"

namespace kerf::ops {

float momentum_of(std::string_view op, const Attributes& attributes) {
  const double momentum = attribute_float(attributes, "momentum", 0.9);
  if (!(momentum >= 0 && momentum <= 1))
    throw Error(ErrorCode::kUsage, format("{}: momentum {} must be within [0, 1]", op, momentum));
  return static_cast<float>(momentum);
}

BatchNormalization::BatchNormalization(const NodeFacts& facts)
    : BoundOperator("BatchNormalization", facts),
      format_(image_format(facts)),
      training_mode_(attribute_int(facts.attributes, "training_mode", 0) != 0),
      epsilon_(static_cast<float>(attribute_float(facts.attributes, "epsilon", 1e-5))),
      momentum_(momentum_of("BatchNormalization", facts.attributes)) {
  const Shape x = onnx_shape(format_, shape(0));
  check(x);
  if (!training_mode_ && facts.outputs > 1)
    throw Error(
        ErrorCode::kUsage,
        format("BatchNormalization with training_mode 0 gives 1 output, not {}", facts.outputs));
  const ValueSpec channels{DType::kFloat32, {x[1]}};
  outputs_ = {input(0).spec};
  space_.axes = axes_of_tensor(x);
  for (int axis = 0; axis < x.rank(); ++axis) {
    IterationAxis& iterations = space_.axes[static_cast<size_t>(axis)];
    if (axis == 1) {
      iterations.kind = AxisKind::kFeature;
      iterations.name = "channels";
      continue;
    }
    if (axis > 1) iterations.kind = AxisKind::kSpace;
    if (axis > 1) iterations.name = format("axis {}", axis);
    if (training_mode_)
      iterations.undivided =
          "its statistics are those of all samples and positions; exchange sums by ChannelSum, "
          "CenteredSquareSum and ChannelStatistics instead";
  }
  const OperandMap per_channel = operand_axes({{1}});
  space_.inputs = {stored_axes(format_, same_axes(x.rank())), per_channel, per_channel, per_channel,
                   per_channel};
  space_.outputs = {space_.inputs[0]};
  if (!training_mode_) return;
  outputs_.insert(outputs_.end(), 2, channels);
  space_.outputs.insert(space_.outputs.end(), 2, per_channel);
}

void BatchNormalization::check(const Shape& x) const {
  for (const Operand& operand : inputs()) want_float32("BatchNormalization", operand, "all inputs");
  bool fits = x.rank() >= 2 && x[1] >= 1;
  for (int i = 1; fits && i < 5; ++i) fits = shape(i) == Shape{x[1]};
  if (!fits)
    throw Error(ErrorCode::kUsage,
                format("BatchNormalization wants X [N, C, ...] and scale, B, input_mean and "
                       "input_var [C], not {}, {}, {}, {} and {}",
                       to_string(x), to_string(shape(1)), to_string(shape(2)), to_string(shape(3)),
                       to_string(shape(4))));
  if (!(epsilon_ >= 0))
    throw Error(ErrorCode::kUsage,
                format("BatchNormalization: epsilon {} must not be negative", epsilon_));
  for (int i = 3; i < 5; ++i)
    if (input(i).in_weight_gradient() || (training_mode_ && input(i).wants_gradient))
      throw Error(ErrorCode::kUsage,
                  "BatchNormalization's input_mean and input_var are not trained: make them states "
                  "or frozen");
}

Cost BatchNormalization::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.inputs[0].shape.elements());
  const double c = static_cast<double>(local.inputs[1].shape.elements());
  return training_mode_ ? Cost{7 * n, 8 * n, 2 * c, 16 * n, 20 * n, 16 * c}
                        : Cost{4 * n, 5 * n, 2 * c, 8 * n, 20 * n, 16 * c};
}

BackwardReads BatchNormalization::backward_reads() const {
  BackwardReads reads;
  reads.inputs_for_input_gradient = {0, 1};
  reads.output_gradients_for_weight_gradient = false;
  return reads;
}

size_t BatchNormalization::reserve_bytes(const LocalSpecs& local) const {
  return static_cast<size_t>(local.inputs[1].shape.elements()) * 2 * sizeof(float);
}

size_t BatchNormalization::handed_bytes(const LocalSpecs& local) const {
  const bool trained = input(1).in_weight_gradient() || input(2).in_weight_gradient();
  return trained ? reserve_bytes(local) : 0;
}

std::vector<StateUpdate> BatchNormalization::state_updates() const {
  std::vector<StateUpdate> updates;
  for (int i = 3; training_mode_ && i < 5; ++i)
    if (input(i).role == Role::kState) updates.push_back({i, i - 2, momentum_});
  return updates;
}

OperatorDefinitions define_batch_normalization() {
  return {{.name = "BatchNormalization",
           .inputs = {{"X"}, {"scale"}, {"B"}, {"input_mean"}, {"input_var"}},
           .outputs = {{"Y"}, {"running_mean"}, {"running_var"}},
           .attributes = {{"epsilon", AttributeType::kFloat},
                          {"momentum", AttributeType::kFloat},
                          {"training_mode"},
                          format_attribute()},
           .bind = bind_as<BatchNormalization>,
           .channels_last = image_channels_last,
           .first_opset = 14}};  // `training_mode`
}

}  // namespace kerf::ops
