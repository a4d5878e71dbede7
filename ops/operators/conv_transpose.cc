#include "ops/operators/conv_transpose.h"

#include <algorithm>

#include "ops/grouped_axes.h"
#include "ops/product_cost.h"

namespace kerf::ops {
namespace {

constexpr const char* kConvTranspose = "ConvTranspose";

void check_transposed_shapes(const Shape& x, const Shape& w, int64_t groups) {
  const bool fits = x.rank() >= 3 && x.rank() <= 5 && w.rank() == x.rank() && groups >= 1 &&
                    x[1] >= 1 && w[0] == x[1] && w[0] % groups == 0 && w[1] >= 1;
  if (!fits)
    throw Error(ErrorCode::kUsage,
                format("ConvTranspose with group {} wants X [N, C, ...] with one to three axes of "
                       "space and W [C, M/group, ...] with as many, not {} and {}",
                       groups, to_string(x), to_string(w)));
}

// The padding that makes an output of this extent, on both sides.
void pad_mirror(AutoPad how, AxisWindow& mirror, int64_t natural) {
  const int64_t total = std::max<int64_t>(0, natural - mirror.input);
  mirror.pad_begin = how == AutoPad::kSameUpper ? total / 2 : total - total / 2;
  mirror.pad_end = natural - mirror.input - mirror.pad_begin;
}

std::vector<AxisWindow> mirror_windows(const Attributes& attributes, const Shape& x,
                                       const Shape& w) {
  const auto axes = static_cast<size_t>(x.rank()) - 2;
  const std::vector<int64_t> kernel(w.begin() + 2, w.end());
  if (attribute_ints(attributes, "kernel_shape", kernel) != kernel)
    throw Error(ErrorCode::kUsage,
                format("ConvTranspose: kernel_shape is not that of W {}", to_string(w)));
  for (size_t i = 0; i < axes; ++i) check_space(kConvTranspose, x[static_cast<int>(i) + 2], i + 2);
  const auto numbers = [&](const char* name, size_t count, int64_t least, int64_t otherwise) {
    return window_numbers(kConvTranspose, attributes, name, count, least, otherwise);
  };
  const auto strides = numbers("strides", axes, 1, 1);
  const auto dilations = numbers("dilations", axes, 1, 1);
  const auto pads = numbers("pads", 2 * axes, 0, 0);
  const auto behind = numbers("output_padding", axes, 0, 0);
  const bool shaped = attributes.contains("output_shape");
  const auto shape = numbers("output_shape", axes, shaped ? 1 : 0, 0);
  const AutoPad auto_pad = auto_pad_of(kConvTranspose, attributes);
  const bool same = auto_pad == AutoPad::kSameUpper || auto_pad == AutoPad::kSameLower;
  std::vector<AxisWindow> windows;
  for (size_t i = 0; i < axes; ++i) {
    AxisWindow mirror{.output = x[static_cast<int>(i) + 2],
                      .kernel = kernel[i],
                      .stride = strides[i],
                      .dilation = dilations[i]};
    // What is added behind what the padding takes away is not taken.
    const bool padded = !shaped && auto_pad == AutoPad::kNotSet;
    const int64_t pad_end = padded ? pads[axes + i] : 0;
    const int64_t within = std::min(pad_end, behind[i]);
    const int64_t more = behind[i] - within;
    if (more >= mirror.stride)
      throw Error(
          ErrorCode::kUsage,
          format("ConvTranspose: output_padding {}, of which {} are behind its pads, is not "
                 "less than the stride {} (axis {}), which is not known here",
                 behind[i], more, mirror.stride, i + 2));
    const int64_t natural = mirror.stride * (mirror.output - 1) + more + mirror.reach();
    if (shaped || same) {
      mirror.input = shaped ? shape[i] : mirror.output * mirror.stride;
      pad_mirror(auto_pad, mirror, natural);
    } else {
      mirror.pad_begin = padded ? pads[i] : 0;
      mirror.pad_end = pad_end - within;
      mirror.input = natural - mirror.pad_begin - mirror.pad_end;
    }
    if (mirror.input < 1 || mirror.output < 1)
      throw Error(ErrorCode::kUsage, format("ConvTranspose of {} by {} leaves nothing of axis {}",
                                            to_string(x), to_string(w), i + 2));
    windows.push_back(mirror);
  }
  return windows;
}

}  // namespace

ConvTranspose::ConvTranspose(const NodeFacts& facts)
    : BoundOperator(kConvTranspose, facts),
      format_(image_format(facts)),
      groups_(attribute_int(facts.attributes, "group", 1)) {
  for (const Operand& operand : inputs()) want_float32(kConvTranspose, operand, "all inputs");
  const Shape x = onnx_shape(format_, shape(0));
  check_transposed_shapes(x, shape(1), groups_);
  Shape y = x;
  y[1] = shape(1)[1] * groups_;
  if (has(2) && !(shape(2) == Shape{y[1]}))
    throw Error(ErrorCode::kUsage,
                format("ConvTranspose wants B of shape [{}], not {}", y[1], to_string(shape(2))));
  windows_ = mirror_windows(facts.attributes, x, shape(1));
  for (int i = 2; i < x.rank(); ++i) y[i] = windows_[static_cast<size_t>(i) - 2].input;
  outputs_ = {{DType::kFloat32, stored_shape(format_, y)}};
  set_space(x);
}

void ConvTranspose::set_space(const Shape& image) {
  const Shape& w = shape(1);
  const GroupedAxes grouped = add_grouped_axes(space_, image[0], groups_, w[1], w[0] / groups_);
  const auto names = names_of_space(windows_.size());
  for (size_t i = 0; i < windows_.size(); ++i)
    add_axis(space_, {AxisKind::kSpace, names[i], windows_[i].output, 1, false,
                      "its windows overlap in the output"});
  const auto with_space = [&](std::vector<std::vector<int>> axes) {
    axes.resize(axes.size() + windows_.size());
    return operand_axes(axes);
  };
  const std::vector<int> inputs_of_all = grouped.of_group(grouped.inputs);
  const std::vector<int> outputs_of_all = grouped.of_group(grouped.outputs);
  space_.inputs = {stored_axes(format_, with_space({{0}, inputs_of_all})),
                   with_space({inputs_of_all, {grouped.outputs}})};
  if (inputs().size() > 2) space_.inputs.push_back(operand_axes({outputs_of_all}, grouped.inputs));
  space_.outputs = {stored_axes(format_, with_space({{0}, outputs_of_all}))};
}

Cost ConvTranspose::cost(const LocalSpecs& local) const {
  const Shape& weights = local.inputs[1].shape;
  const double x = static_cast<double>(local.inputs[0].shape.elements());
  const double w = static_cast<double>(weights.elements());
  const double y = static_cast<double>(local.outputs[0].shape.elements());
  const double flops = 2 * x * (weights[0] == 0 ? 0 : w / static_cast<double>(weights[0]));
  Cost cost = product_cost(*this, flops, 4 * (x + w + y));
  const double bias = has(2) ? static_cast<double>(local.inputs[2].shape.elements()) : 0;
  if (bias > 0) add_bias_cost(input(2), y, 4 * bias, cost);
  return cost;
}

OperatorDefinitions define_conv_transpose() {
  std::vector<FormalAttribute> attributes = window_attributes();
  attributes.push_back({"group"});
  attributes.push_back({"output_padding", AttributeType::kInts});
  attributes.push_back({"output_shape", AttributeType::kInts});
  attributes.push_back(format_attribute());
  return {{.name = kConvTranspose,
           .inputs = {{"X"}, {"W"}, {"B", FormalOperand::Count::kOptional}},
           .outputs = {{"Y"}},
           .attributes = std::move(attributes),
           .bind = bind_as<ConvTranspose>,
           .channels_last = image_channels_last}};
}

}  // namespace kerf::ops
