#include "ops/operators/group_normalization.h"

#include "ops/samples_axis.h"

namespace kerf::ops {

GroupNormalization::GroupNormalization(std::string_view name, bool of_instances,
                                       const NodeFacts& facts)
    : BoundOperator(name, facts),
      epsilon_(static_cast<float>(attribute_float(facts.attributes, "epsilon", 1e-5))) {
  for (const Operand& operand : inputs()) want_float32(name, operand, "all inputs");
  const Shape& x = shape(0);
  if (x.rank() < 3 || x[1] < 1 || !(shape(1) == Shape{x[1]}) || !(shape(2) == Shape{x[1]}))
    throw Error(ErrorCode::kUsage,
                format("{} wants X [N, C, ...] and scale and bias [C], not {}, {} and {}", name,
                       to_string(x), to_string(shape(1)), to_string(shape(2))));
  const int64_t groups = of_instances ? x[1] : attribute_int(facts.attributes, "num_groups", 0);
  if (groups < 1 || x[1] % groups != 0)
    throw Error(ErrorCode::kUsage,
                format("{} cannot make {} groups of {} channels", name, groups, x[1]));
  if (attribute_int(facts.attributes, "stash_type", 1) != 1)
    throw Error(ErrorCode::kUsage, format("{} computes in float32: stash_type must be 1", name));
  for (int i = 1; i < 3; ++i)
    if (input(i).in_input_gradient())
      throw Error(ErrorCode::kUsage,
                  format("{} has gradients of scale and bias only as parameters", name));
  group_channels_ = x[1] / groups;
  space_.axes = {samples_axis(x[0]),
                 {AxisKind::kFeature, of_instances ? "channels" : "groups", groups}};
  std::vector<int> channels{1};
  const char* why = "its statistics are those of all of them";
  if (group_channels_ > 1) {
    channels.push_back(2);
    space_.axes.push_back(
        {AxisKind::kOther, "channels of a group", group_channels_, 1, false, why});
  }
  std::vector<std::vector<int>> image{{0}, channels};
  for (int i = 2; i < x.rank(); ++i) {
    image.push_back({static_cast<int>(space_.axes.size())});
    space_.axes.push_back({AxisKind::kSpace, format("axis {}", i), x[i], 1, false, why});
  }
  space_.inputs = {operand_axes(image), operand_axes({channels}), operand_axes({channels})};
  space_.outputs = {space_.inputs[0]};
  outputs_ = {input(0).spec};
}

Cost GroupNormalization::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.inputs[0].shape.elements());
  const double c = static_cast<double>(local.inputs[1].shape.elements());
  return {7 * n, 13 * n, 2 * c, 16 * n + 8 * c, 24 * n + 12 * c, 16 * c};
}

BackwardReads GroupNormalization::backward_reads() const {
  BackwardReads reads;
  reads.inputs_for_input_gradient = {0, 1};
  reads.output_gradients_for_weight_gradient = false;
  return reads;
}

size_t GroupNormalization::reserve_bytes(const LocalSpecs& local) const {
  const Shape& x = local.inputs[0].shape;
  return static_cast<size_t>(x[0] * x[1] / group_channels_) * 2 * sizeof(float);
}

size_t GroupNormalization::handed_bytes(const LocalSpecs& local) const {
  if (!input(1).in_weight_gradient() && !input(2).in_weight_gradient()) return 0;
  return static_cast<size_t>(local.inputs[1].shape.elements()) * 2 * sizeof(float);
}

OperatorDefinitions define_group_normalization() {
  return {{.name = "GroupNormalization",
           .inputs = {{"X"}, {"scale"}, {"bias"}},
           .outputs = {{"Y"}},
           .attributes = {{"epsilon", AttributeType::kFloat}, {"num_groups"}, {"stash_type"}},
           .bind =
               [](const NodeFacts& facts) {
                 return std::make_unique<GroupNormalization>("GroupNormalization", false, facts);
               },
           .first_opset = 21},  // before it, scale and bias of groups
          {.name = "InstanceNormalization",
           .inputs = {{"input"}, {"scale"}, {"B"}},
           .outputs = {{"output"}},
           .attributes = {{"epsilon", AttributeType::kFloat}},
           .bind =
               [](const NodeFacts& facts) {
                 return std::make_unique<GroupNormalization>("InstanceNormalization", true, facts);
               },
           .first_opset = 6}};
}

}  // namespace kerf::ops
