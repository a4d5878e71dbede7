#include "ops/operators/scatter.h"

#include <algorithm>

#include "ops/operators/indices.h"

namespace kerf::ops {
namespace {

ScatterRule scatter_rule(std::string_view op, const NodeFacts& facts) {
  const std::string name = attribute_string(facts.attributes, "reduction", "none");
  constexpr std::string_view kNames[] = {"none", "add", "mul", "max", "min"};
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames))
    throw Error(ErrorCode::kUsage,
                format("{} reduces by none, add, mul, max or min, not by '{}'", op, name));
  return static_cast<ScatterRule>(found - std::begin(kNames));
}

bool has_arithmetic(DType dtype) {
  return dtype != DType::kBool && dtype != DType::kFloat16 && dtype != DType::kBFloat16;
}

}  // namespace

Scatter::Scatter(std::string_view name, const NodeFacts& facts)
    : BoundOperator(name, facts), rule_(scatter_rule(name, facts)) {
  want_indices(name, input(1));
  const ValueSpec& data = input(0).spec;
  if (input(2).spec.dtype != data.dtype)
    throw Error(ErrorCode::kUsage, format("{} of {} wants updates of that type, not {}", name,
                                          to_string(data.dtype), to_string(input(2).spec.dtype)));
  if (rule_ != ScatterRule::kNone && !has_arithmetic(data.dtype))
    throw Error(ErrorCode::kUsage, format("{} cannot reduce {}", name, to_string(data.dtype)));
  const bool wants = input(0).wants_gradient || input(2).wants_gradient;
  if (wants && rule_ != ScatterRule::kNone && rule_ != ScatterRule::kAdd)
    throw Error(
        ErrorCode::kUsage,
        format("{} has gradients with reduction none or add; freeze what is before it", name));
  outputs_ = {data};
  space_.axes = axes_of_tensor(data.shape);
  space_.outputs = {same_axes(data.shape.rank())};
}

Cost Scatter::cost(const LocalSpecs& local) const {
  const double updates = static_cast<double>(local.inputs[2].shape.elements());
  const double moved = bytes_of(local.inputs[1]) + 2 * bytes_of(local.inputs[2]);
  const double whole = 2 * bytes_of(local.outputs[0]);
  Cost cost{rule_ == ScatterRule::kNone ? 0 : updates, 0, 0, moved + whole, 0, 0};
  const auto add = [&](int index, double bytes) {
    if (input(index).in_input_gradient()) cost.input_gradient_bytes += bytes;
    if (input(index).in_weight_gradient()) cost.weight_gradient_bytes += bytes;
  };
  add(0, whole + (rule_ == ScatterRule::kNone ? moved : 0));
  add(2, moved);
  return cost;
}

BackwardReads Scatter::backward_reads() const {
  BackwardReads reads;
  if (input(0).in_input_gradient() || input(2).in_input_gradient())
    reads.inputs_for_input_gradient = {1};
  if (input(0).in_weight_gradient() || input(2).in_weight_gradient())
    reads.inputs_for_weight_gradient = {1};
  return reads;
}

ScatterElements::ScatterElements(const NodeFacts& facts) : Scatter("ScatterElements", facts) {
  const Shape& data = shape(0);
  const Shape& indices = shape(1);
  targets_ = {
      resolved_axis("ScatterElements", attribute_int(facts.attributes, "axis", 0), data.rank())};
  bool fits = indices.rank() == data.rank() && indices == shape(2) && data[axis()] >= 1 &&
              indices[axis()] >= 0;
  for (int i = 0; fits && i < data.rank(); ++i)
    if (i != axis()) fits = indices[i] == data[i] || (indices[i] >= 0 && indices[i] <= data[i]);
  if (!fits)
    throw Error(ErrorCode::kUsage,
                format("ScatterElements cannot put updates of {} into {} along axis {} with "
                       "indices of {}",
                       to_string(shape(2)), to_string(data), axis(), to_string(indices)));
  OperandMap updates = same_axes(data.rank());
  updates.axes[static_cast<size_t>(axis())].axes.clear();
  space_.inputs = {same_axes(data.rank()), updates, updates};
}

ScatterND::ScatterND(const NodeFacts& facts) : Scatter("ScatterND", facts) {
  const Shape& data = shape(0);
  const Shape& indices = shape(1);
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kUsage,
                format("ScatterND of {} with indices of {} and updates of {}: {}", to_string(data),
                       to_string(indices), to_string(shape(2)), why));
  };
  const int64_t tuple = indices.rank() == 0 ? 0 : indices[indices.rank() - 1];
  if (tuple < 1 || tuple > data.rank()) refuse("the last axis of the indices is a tuple of them");
  if (indices.batched()) refuse("tuples of the batch's number point anywhere");
  std::vector<int64_t> extents(indices.begin(), indices.end() - 1);
  std::vector<std::vector<int>> updates(extents.size());
  for (int i = 0; i < data.rank(); ++i) {
    if (i < tuple) {
      if (data[i] < 1) refuse(format("axis {} is the batch, or has nothing to point at", i));
      targets_.push_back(i);
      continue;
    }
    extents.push_back(data[i]);
    updates.push_back({i});
  }
  if (!(Shape(extents) == shape(2))) refuse(format("it wants {}", to_string(Shape(extents))));
  space_.inputs = {same_axes(data.rank()),
                   operand_axes(std::vector<std::vector<int>>(static_cast<size_t>(indices.rank()))),
                   operand_axes(updates)};
}

OperatorDefinitions define_scatter() {
  OperatorDefinition elements{.name = "ScatterElements",
                              .inputs = {{"data"}, {"indices"}, {"updates"}},
                              .outputs = {{"output"}},
                              .attributes = {{"axis"}, {"reduction", AttributeType::kString}},
                              .bind = bind_as<ScatterElements>,
                              .first_opset = 11};
  OperatorDefinition tuples = elements;
  tuples.name = "ScatterND";
  tuples.attributes = {{"reduction", AttributeType::kString}};
  tuples.bind = bind_as<ScatterND>;
  return {std::move(elements), std::move(tuples)};
}

}  // namespace kerf::ops
