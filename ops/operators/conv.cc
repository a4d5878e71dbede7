#include "ops/operators/conv.h"

#include "ops/grouped_axes.h"

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
  for (int64_t o = 0; o < window.output; ++o)
    if (!sees_input(window, o)) result.undivided = "some of its windows see only padding";
  return result;
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
  const double bias = has(2) && local.inputs[2].shape.elements() > 0 ? y : 0;
  const double bytes = 4 * (x + w + y);
  return {flops + bias, flops, flops + bias, bytes, bytes, bytes + 4 * bias};
}

OperatorDefinitions define_conv() {
  std::vector<FormalAttribute> attributes = window_attributes();
  attributes.push_back({"group"});
  attributes.push_back(format_attribute());
  return {{.name = "Conv",
           .inputs = {{"X"}, {"W"}, {"B", FormalOperand::Count::kOptional}},
           .outputs = {{"Y"}},
           .attributes = std::move(attributes),
           .bind = bind_as<Conv>,
           .channels_last = image_channels_last}};
}

}  // namespace kerf::ops
