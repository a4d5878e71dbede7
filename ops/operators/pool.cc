#include "ops/operators/pool.h"

namespace kerf::ops {
Pool::Pool(std::string_view name, Kind kind, const NodeFacts& facts)
    : BoundOperator(name, facts),
      kind_(kind),
      format_(image_format(facts.attributes)),
      count_padding_(attribute_int(facts.attributes, "count_include_pad", 0) != 0) {
  const Shape x = onnx_shape(format_, shape(0));
  if (input(0).spec.dtype != DType::kFloat32 || x.rank() != 4)
    throw Error(ErrorCode::kUsage, format("{} wants float32 [N, C, H, W], not {} {}", name,
                                          to_string(input(0).spec.dtype), to_string(x)));
  window_ = make_window(name, window_options(name, facts.attributes), {x[2], x[3]});
  for (size_t i = 0; i < 2; ++i)
    for (int64_t o = 0; o < window_.output[i]; ++o)
      if (!sees_input(window_, i, o))
        throw Error(ErrorCode::kUsage,
                    format("{}: window {} of axis {} sees only padding; make pads smaller", name, o,
                           i + 2));
  outputs_ = {
      {DType::kFloat32, stored_shape(format_, {x[0], x[1], window_.output[0], window_.output[1]})}};
  space_.axes = {{AxisKind::kSample, "samples", x[0]},
                 {AxisKind::kFeature, "channels", x[1]},
                 {AxisKind::kSpace, "rows", window_.output[0], 1, true},
                 {AxisKind::kSpace, "columns", window_.output[1], 1, true}};
  OperandMap map = same_axes(4);
  space_.outputs = {stored_axes(format_, map)};
  for (size_t i = 0; i < 2; ++i) map.axes[i + 2].window = sliding(window_, i);
  space_.inputs = {stored_axes(format_, map)};
}

Window Pool::local_window(const Box& iterations) const {
  return ops::local_window(window_, iterations.axes[2], iterations.axes[3]);
}

Cost Pool::cost(const LocalSpecs& local) const {
  const double x = static_cast<double>(local.inputs[0].shape.elements());
  const double y = static_cast<double>(local.outputs[0].shape.elements());
  const double flops = y * static_cast<double>(window_.kernel[0] * window_.kernel[1]);
  return {flops, flops, 0, 4 * (x + y), 4 * (x + y), 0};
}

size_t Pool::reserve_bytes(const LocalSpecs& local) const {
  if (kind_ == Kind::kAverage) return 0;
  return static_cast<size_t>(local.outputs[0].shape.elements() * index_bytes());
}

OperatorDefinitions define_pool() {
  const auto define = [](const char* name, Pool::Kind kind, const char* own_attribute) {
    std::vector<FormalAttribute> attributes = window_attributes();
    attributes.push_back({"ceil_mode"});
    attributes.push_back({own_attribute});
    attributes.push_back(format_attribute());
    return OperatorDefinition{
        .name = name,
        .inputs = {{"X"}},
        .outputs = {{"Y"}},
        .attributes = std::move(attributes),
        .bind = [name, kind](
                    const NodeFacts& facts) { return std::make_unique<Pool>(name, kind, facts); },
        .channels_last = image_channels_last};
  };
  return {define("MaxPool", Pool::Kind::kMax, "storage_order"),
          define("AveragePool", Pool::Kind::kAverage, "count_include_pad")};
}

}  // namespace kerf::ops
