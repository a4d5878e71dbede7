// Squeeze, Unsqueeze (ONNX, opset 13, axes as an attribute) and Identity: the input read with axes
// of one index fewer, or more, or as it is.
//
// Squeeze without `axes` takes all axes of one index away. Iterations: the input's axes, one to
// one; an axis of one index that only one side has is nothing to divide.
#include <set>

#include "ops/operators/alias.h"

namespace kerf::ops {
namespace {

// `axes` of a tensor of `rank` axes, each once.
std::set<int> axis_set(std::string_view op, const NodeFacts& facts, int rank) {
  std::set<int> axes;
  for (const int64_t axis : attribute_ints(facts.attributes, "axes", {}))
    if (!axes.insert(resolved_axis(op, axis, rank)).second)
      throw Error(ErrorCode::kUsage, format("{} names axis {} twice", op, axis));
  return axes;
}

std::unique_ptr<const BoundOperator> bind_squeeze(const NodeFacts& facts) {
  const Shape& shape = facts.inputs[0].spec.shape;
  const std::set<int> gone = axis_set("Squeeze", facts, shape.rank());
  const bool all = !facts.attributes.contains("axes");
  std::vector<int64_t> extents;
  std::vector<std::vector<int>> kept;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (gone.contains(axis) && shape[axis] != 1)
      throw Error(ErrorCode::kUsage,
                  format("Squeeze of axis {} of {}: only an axis of one index can go", axis,
                         to_string(shape)));
    if (gone.contains(axis) || (all && shape[axis] == 1)) continue;
    extents.push_back(shape[axis]);
    kept.push_back({axis});
  }
  return std::make_unique<Alias>(
      "Squeeze", facts, Shape(extents),
      IterationSpace{axes_of_tensor(shape), {same_axes(shape.rank())}, {operand_axes(kept)}});
}

std::unique_ptr<const BoundOperator> bind_unsqueeze(const NodeFacts& facts) {
  const Shape& shape = facts.inputs[0].spec.shape;
  const auto count = attribute_ints(facts.attributes, "axes", {}).size();
  if (!facts.attributes.contains("axes"))
    throw Error(ErrorCode::kUsage, "Unsqueeze needs its attribute 'axes'");
  if (count > static_cast<size_t>(Shape::kMaxRank - shape.rank()))
    throw Error(ErrorCode::kUsage, format("Unsqueeze of {} by {} axes makes a tensor of more than "
                                          "{}",
                                          to_string(shape), count, Shape::kMaxRank));
  const int rank = shape.rank() + static_cast<int>(count);
  const std::set<int> added = axis_set("Unsqueeze", facts, rank);
  std::vector<int64_t> extents;
  std::vector<std::vector<int>> axes;
  for (int axis = 0, from = 0; axis < rank; ++axis) {
    const bool one = added.contains(axis);
    extents.push_back(one ? 1 : shape[from]);
    axes.push_back(one ? std::vector<int>{} : std::vector<int>{from});
    if (!one) ++from;
  }
  return std::make_unique<Alias>(
      "Unsqueeze", facts, Shape(extents),
      IterationSpace{axes_of_tensor(shape), {same_axes(shape.rank())}, {operand_axes(axes)}});
}

std::unique_ptr<const BoundOperator> bind_identity(const NodeFacts& facts) {
  const Shape& shape = facts.inputs[0].spec.shape;
  const OperandMap map = same_axes(shape.rank());
  return std::make_unique<Alias>("Identity", facts, shape,
                                 IterationSpace{axes_of_tensor(shape), {map}, {map}});
}

}  // namespace

OperatorDefinitions define_squeeze() {
  return {
      {.name = "Squeeze",
       .inputs = {{"data"}},
       .outputs = {{"squeezed"}},
       .attributes = {{"axes", AttributeType::kInts}},
       .input_attributes = {{"axes", 1, 13}},
       .bind = bind_squeeze},
      {.name = "Unsqueeze",
       .inputs = {{"data"}},
       .outputs = {{"expanded"}},
       .attributes = {{"axes", AttributeType::kInts}},
       .input_attributes = {{"axes", 1, 13}},
       .bind = bind_unsqueeze},
      {.name = "Identity", .inputs = {{"input"}}, .outputs = {{"output"}}, .bind = bind_identity}};
}

}  // namespace kerf::ops
