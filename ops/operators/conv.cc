#include "ops/operators/conv.h"

#include <algorithm>

#include "ops/grouped_axes.h"
#include "ops/product_cost.h"

namespace kerf::ops {
namespace {

void check_shapes(const Shape& x, const Shape& w, int64_t groups) {
  if (x.rank() < 3 || x.rank() > 5 || w.rank() != x.rank())
    throw Error(
        ErrorCode::kUsage,
        format("Conv wants X [N, C, ...] with one to three axes of space and W [O, C/group, "
               "...] with as many, not {} and {}",
               to_string(x), to_string(w)));
  if (groups < 1 || w[1] < 1 || x[1] != w[1] * groups || w[0] < 1 || w[0] % groups != 0)
    throw Error(ErrorCode::kUsage, format("Conv with group {} cannot apply W {} to X {}", groups,
                                          to_string(w), to_string(x)));
}

std::vector<int64_t> space_of(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

IterationAxis space_axis(const AxisWindow& window, const std::string& name) {
  IterationAxis result{AxisKind::kSpace, name, window.output, 1, true};
  if (blind_window(window) >= 0) result.undivided = "some of its windows see only padding";
  return result;
}

// What a FusedConv says of its convolution.
NodeFacts conv_facts(const NodeFacts& facts) {
  NodeFacts plain = facts;
  plain.inputs.resize(std::min<size_t>(facts.inputs.size(), FusedConv::kB + 1));
  return plain;
}

bool is_relu(const NodeFacts& facts) {
  const std::string activation = attribute_string(facts.attributes, "activation", "");
  if (activation.empty() || activation == "Relu") return !activation.empty();
  throw Error(ErrorCode::kUsage,
              format("FusedConv wants an activation \"\" or \"Relu\", not \"{}\"", activation));
}

std::optional<ChannelsLast> fused_channels_last(const NodeFacts& facts) {
  std::optional<ChannelsLast> node = image_channels_last(facts);
  if (node && facts.inputs.size() > FusedConv::kZ && facts.inputs[FusedConv::kZ].present)
    node->images.push_back(FusedConv::kZ);
  return node;
}

}  // namespace

Conv::Conv(const NodeFacts& facts)
    : BoundOperator(facts.inputs[0].spec.shape.rank() > 4 ? kConvOfVolumes : "Conv", facts),
      format_(image_format(facts)),
      groups_(attribute_int(facts.attributes, "group", 1)) {
  for (const Operand& operand : inputs()) want_float32("Conv", operand, "all inputs");
  const Shape x = onnx_shape(format_, shape(0));
  check_shapes(x, shape(1), groups_);
  if (has(2) && !(shape(2) == Shape{shape(1)[0]}))
    throw Error(ErrorCode::kUsage,
                format("Conv wants B of shape [{}], not {}", shape(1)[0], to_string(shape(2))));
  windows_ = make_windows("Conv", facts.attributes, space_of(x), space_of(shape(1)));
  Shape y = x;
  y[1] = shape(1)[0];
  for (int i = 2; i < x.rank(); ++i) y[i] = windows_[static_cast<size_t>(i) - 2].output;
  outputs_ = {{DType::kFloat32, stored_shape(format_, y)}};
  set_space(x);
}

void Conv::set_space(const Shape& image) {
  const Shape& w = shape(1);
  const GroupedAxes grouped = add_grouped_axes(space_, image[0], groups_, w[0] / groups_, w[1]);
  std::vector<std::vector<int>> space;
  const auto names = names_of_space(windows_.size());
  for (size_t i = 0; i < windows_.size(); ++i)
    space.push_back({add_axis(space_, space_axis(windows_[i], names[i]))});
  const auto with_space = [&](std::vector<std::vector<int>> axes, bool own) {
    for (const std::vector<int>& axis : space) axes.push_back(own ? std::vector<int>{} : axis);
    return operand_axes(axes);
  };
  const std::vector<int> filters = grouped.of_group(grouped.outputs);
  OperandMap x = with_space({{0}, grouped.of_group(grouped.inputs)}, false);
  for (size_t i = 0; i < windows_.size(); ++i) x.axes[i + 2].window = sliding(windows_[i]);
  space_.inputs = {stored_axes(format_, x), with_space({filters, {grouped.inputs}}, true)};
  if (inputs().size() > 2) space_.inputs.push_back(operand_axes({filters}, grouped.inputs));
  space_.outputs = {stored_axes(format_, with_space({{0}, filters}, false))};
}

Cost Conv::cost(const LocalSpecs& local) const {
  const Shape& weights = local.inputs[1].shape;
  const double x = static_cast<double>(local.inputs[0].shape.elements());
  const double w = static_cast<double>(weights.elements());
  const double y = static_cast<double>(local.outputs[0].shape.elements());
  const double terms = weights[0] == 0 ? 0 : w / static_cast<double>(weights[0]);
  const double flops = 2 * y * terms;
  Cost cost = product_cost(*this, flops, 4 * (x + w + y));
  const double bias = has(2) ? static_cast<double>(local.inputs[2].shape.elements()) : 0;
  if (bias > 0) add_bias_cost(input(2), y, 4 * bias, cost);
  return cost;
}

FusedConv::FusedConv(const NodeFacts& facts)
    : BoundOperator("FusedConv", facts),
      conv_(conv_facts(facts)),
      relu_(is_relu(facts)),
      epsilon_(attribute_float(facts.attributes, "epsilon", 1e-5)) {
  outputs_ = conv_.outputs();
  check();
  space_ = conv_.space();
  space_.axes[static_cast<size_t>(space_.find("inputs"))].undivided =
      "what follows the sums over them wants them whole";
  OperandMap per_filter = operand_axes({space_.inputs[kW].axes[0].axes});
  while (space_.inputs.size() < inputs().size())
    space_.inputs.push_back(space_.inputs.size() == kZ ? space_.outputs[0] : per_filter);
}

void FusedConv::check() const {
  if (shape(kX).rank() != 4)
    throw Error(ErrorCode::kUsage,
                format("FusedConv wants X with two axes of space, not {}", to_string(shape(kX))));
  const auto fail = [](int input, std::string_view why) {
    throw Error(ErrorCode::kUsage, format("FusedConv: its input {} {}", input + 1, why));
  };
  for (int i = 0; i < static_cast<int>(inputs().size()); ++i) {
    if (!has(i)) continue;
    const Operand& operand = input(i);
    want_float32("FusedConv", operand, "all inputs");
    if (operand.wants_gradient) fail(i, "is trained, but nothing is trained through it: use Conv");
    if (i == kX || i == kZ) continue;
    if (!is_kept(operand.role)) fail(i, "is computed, but must be kept by the model");
    if (i > kW && !(operand.spec.shape == Shape{shape(kW)[0]}))
      fail(i, format("must have the shape [{}], not {}", shape(kW)[0], to_string(shape(i))));
  }
  for (const int i : {kShift, kMean, kVariance})
    if (has(i) != has(kScale)) fail(i, "and its input 4 must both be there, or neither");
  if (has(kZ) && !(shape(kZ) == outputs_[0].shape))
    fail(kZ, format("must have the shape {} of its output, not {}", to_string(outputs_[0].shape),
                    to_string(shape(kZ))));
  if (!(epsilon_ >= 0))
    throw Error(ErrorCode::kUsage, format("FusedConv: epsilon {} is negative", epsilon_));
}

Cost FusedConv::cost(const LocalSpecs& local) const {
  const Cost conv = conv_.cost(local);
  const double y = static_cast<double>(local.outputs[0].shape.elements());
  const double more = (relu_ ? y : 0) + (adds() ? y : 0) + (scales() && !has(kB) ? y : 0);
  Cost cost;
  cost.forward_flops = conv.forward_flops + more;
  cost.forward_bytes = conv.forward_bytes + (adds() ? 4 * y : 0);
  return cost;
}

OperatorDefinitions define_conv() {
  std::vector<FormalAttribute> attributes = window_attributes();
  attributes.push_back({"group"});
  attributes.push_back(format_attribute());
  std::vector<FormalAttribute> fused = attributes;
  fused.push_back({"activation", AttributeType::kString});
  fused.push_back({"epsilon", AttributeType::kFloat});
  constexpr auto kOptional = FormalOperand::Count::kOptional;
  return {{.name = "Conv",
           .inputs = {{"X"}, {"W"}, {"B", kOptional}},
           .outputs = {{"Y"}},
           .attributes = std::move(attributes),
           .bind = bind_as<Conv>,
           .channels_last = image_channels_last},
          {.name = "FusedConv",
           .inputs = {{"X"},
                      {"W"},
                      {"B", kOptional},
                      {"scale", kOptional},
                      {"shift", kOptional},
                      {"mean", kOptional},
                      {"variance", kOptional},
                      {"Z", kOptional}},
           .outputs = {{"Y"}},
           .attributes = std::move(fused),
           .bind = bind_as<FusedConv>,
           .channels_last = fused_channels_last}};
}

}  // namespace kerf::ops
