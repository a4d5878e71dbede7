#include "ops/operators/global_pool.h"

#include "ops/samples_axis.h"

namespace kerf::ops {

GlobalPool::GlobalPool(std::string_view name, Kind kind, const NodeFacts& facts)
    : BoundOperator(name, facts),
      kind_(kind),
      format_(image_format(facts)),
      power_(attribute_int(facts.attributes, "p", 2)) {
  want_float32(name, input(0), "X");
  const Shape x = onnx_shape(format_, shape(0));
  if (x.rank() < 3)
    throw Error(ErrorCode::kUsage, format("{} wants X [N, C, ...], not {}", name, to_string(x)));
  if (power_ < 1) throw Error(ErrorCode::kUsage, format("{}: p {} is less than 1", name, power_));
  Shape y = x;
  space_.axes = {samples_axis(x[0]), {AxisKind::kFeature, "channels", x[1]}};
  std::vector<std::vector<int>> of_output = {{0}, {1}};
  for (int i = 2; i < x.rank(); ++i) {
    if (x[i] < 1)
      throw Error(ErrorCode::kUsage,
                  format("{} of {}: axis {} must have a known extent", name, to_string(x), i));
    y[i] = 1;
    IterationAxis axis{AxisKind::kSpace, format("axis {}", i), x[i]};
    if (kind != Kind::kAverage) axis.undivided = "it is no sum over the positions";
    space_.axes.push_back(std::move(axis));
    of_output.emplace_back();
  }
  positions_ = Shape(std::vector<int64_t>(x.begin() + 2, x.end())).elements();
  outputs_ = {{DType::kFloat32, stored_shape(format_, y)}};
  space_.inputs = {stored_axes(format_, same_axes(x.rank()))};
  space_.outputs = {stored_axes(format_, operand_axes(of_output))};
}

Cost GlobalPool::cost(const LocalSpecs& local) const {
  const double x = static_cast<double>(local.inputs[0].shape.elements());
  const double y = static_cast<double>(local.outputs[0].shape.elements());
  return {x, x, 0, 4 * (x + y), 4 * (x + y), 0};
}

BackwardReads GlobalPool::backward_reads() const {
  BackwardReads reads;
  if (kind_ != Kind::kLp) return reads;
  reads.inputs_for_input_gradient = {0};
  reads.outputs_for_input_gradient = {0};
  return reads;
}

// The place of each channel's largest number.
size_t GlobalPool::reserve_bytes(const LocalSpecs& local) const {
  if (kind_ != Kind::kMax) return 0;
  return static_cast<size_t>(local.outputs[0].shape.elements()) * sizeof(int64_t);
}

OperatorDefinitions define_global_pool() {
  const auto define = [](const char* name, GlobalPool::Kind kind,
                         std::vector<FormalAttribute> attributes) {
    attributes.push_back(format_attribute());
    return OperatorDefinition{.name = name,
                              .inputs = {{"X"}},
                              .outputs = {{"Y"}},
                              .attributes = std::move(attributes),
                              .bind =
                                  [name, kind](const NodeFacts& facts) {
                                    return std::make_unique<GlobalPool>(name, kind, facts);
                                  },
                              .channels_last = image_channels_last};
  };
  return {define("GlobalAveragePool", GlobalPool::Kind::kAverage, {}),
          define("GlobalMaxPool", GlobalPool::Kind::kMax, {}),
          define("GlobalLpPool", GlobalPool::Kind::kLp, {{"p"}})};
}

}  // namespace kerf::ops
