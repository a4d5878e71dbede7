#include "ops/operators/conv.h"

namespace kerf::ops {
namespace {

void check_shapes(const Shape& x, const Shape& w, int64_t groups) {
  if (x.rank() != 4 || w.rank() != 4)
    throw Error(ErrorCode::kUsage,
                format("Conv wants X [N, C, H, W] and W [O, C/group, kh, kw], not {} and {}; other "
                       "numbers of axes are not supported",
                       to_string(x), to_string(w)));
  if (groups < 1 || w[1] < 1 || x[1] != w[1] * groups || w[0] < 1 || w[0] % groups != 0)
    throw Error(ErrorCode::kUsage, format("Conv with group {} cannot apply W {} to X {}", groups,
                                          to_string(w), to_string(x)));
}

Window window_of(const Attributes& attributes, const Shape& x, const Shape& weights) {
  WindowOptions options = window_options("Conv", attributes, KernelShape::kFromWeights);
  const Extent2 kernel{weights[2], weights[3]};
  if (options.kernel != Extent2{} && options.kernel != kernel)
    throw Error(ErrorCode::kUsage,
                format("Conv: kernel_shape is {}x{}, but W is {}", options.kernel[0],
                       options.kernel[1], to_string(weights)));
  options.kernel = kernel;
  return make_window("Conv", options, {x[2], x[3]});
}

IterationAxis space_axis(const Window& window, size_t axis, const char* name) {
  IterationAxis result{AxisKind::kSpace, name, window.output[axis], 1, true};
  for (int64_t o = 0; o < window.output[axis]; ++o)
    if (!sees_input(window, axis, o)) result.undivided = "some of its windows see only padding";
  return result;
}

}  // namespace

Conv::Conv(const NodeFacts& facts)
    : BoundOperator("Conv", facts),
      format_(image_format(facts.attributes)),
      groups_(attribute_int(facts.attributes, "group", 1)) {
  for (const Operand& operand : inputs()) want_float32("Conv", operand, "all inputs");
  const Shape x = onnx_shape(format_, shape(0));
  check_shapes(x, shape(1), groups_);
  if (has(2) && !(shape(2) == Shape{shape(1)[0]}))
    throw Error(ErrorCode::kUsage,
                format("Conv wants B of shape [{}], not {}", shape(1)[0], to_string(shape(2))));
  window_ = window_of(facts.attributes, x, shape(1));
  outputs_ = {{DType::kFloat32,
               stored_shape(format_, {x[0], shape(1)[0], window_.output[0], window_.output[1]})}};
  set_space(x);
}

void Conv::set_space(const Shape& image) {
  const Shape& w = shape(1);
  const bool grouped = groups_ > 1;
  space_.axes = {{AxisKind::kSample, "samples", image[0]}};
  const auto add = [&](IterationAxis axis) {
    space_.axes.push_back(std::move(axis));
    return static_cast<int>(space_.axes.size()) - 1;
  };
  const int groups = grouped ? add({AxisKind::kFeature, "groups", groups_}) : -1;
  const int filters = add({grouped ? AxisKind::kOther : AxisKind::kFeature,
                           grouped ? "outputs of a group" : "outputs", w[0] / groups_});
  const int channels = add({AxisKind::kSummed, "inputs", w[1]});
  const int rows = add(space_axis(window_, 0, "rows"));
  const int columns = add(space_axis(window_, 1, "columns"));
  const auto of_group = [&](int axis) {
    return grouped ? std::vector<int>{groups, axis} : std::vector<int>{axis};
  };
  OperandMap x = operand_axes({{0}, of_group(channels), {rows}, {columns}});
  for (size_t i = 0; i < 2; ++i) x.axes[i + 2].window = sliding(window_, i);
  space_.inputs = {stored_axes(format_, x), operand_axes({of_group(filters), {channels}, {}, {}})};
  if (inputs().size() > 2) space_.inputs.push_back(operand_axes({of_group(filters)}, channels));
  space_.outputs = {
      stored_axes(format_, operand_axes({{0}, of_group(filters), {rows}, {columns}}))};
}

Window Conv::local_window(const Box& iterations) const {
  return ops::local_window(window_, iterations.axes[iterations.axes.size() - 2],
                           iterations.axes.back());
}

Cost Conv::cost(const LocalSpecs& local) const {
  const Shape& weights = local.inputs[1].shape;
  const double x = static_cast<double>(local.inputs[0].shape.elements());
  const double w = static_cast<double>(weights.elements());
  const double y = static_cast<double>(local.outputs[0].shape.elements());
  const double flops = 2 * y * static_cast<double>(weights[1] * weights[2] * weights[3]);
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
