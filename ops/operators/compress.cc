// Compress (ONNX, opset 28; condition as an attribute): the indices of an axis whose condition is
// not 0.
//
// Any element type. What is picked in one stretch divides. A shorter condition picks nothing beyond
// its end. Without `axis` ONNX means the flattened tensor: only a vector's one axis is taken so.
#include "ops/moved.h"

namespace kerf::ops {
namespace {

std::unique_ptr<const BoundOperator> bind_compress(const NodeFacts& facts) {
  const Shape& shape = facts.inputs[0].spec.shape;
  if (!facts.attributes.contains("axis") && shape.rank() != 1)
    throw Error(ErrorCode::kUsage, format("Compress of {} without an axis reads it flattened: "
                                          "reshape it to a vector beforehand",
                                          to_string(shape)));
  const int axis =
      resolved_axis("Compress", attribute_int(facts.attributes, "axis", 0), shape.rank());
  if (!facts.attributes.contains("condition"))
    throw Error(ErrorCode::kUsage, "Compress needs its attribute 'condition'");
  const auto condition = attribute_ints(facts.attributes, "condition", {});
  if (shape[axis] < 0 || condition.size() > static_cast<size_t>(shape[axis]))
    throw Error(ErrorCode::kUsage,
                format("Compress cannot pick by {} conditions along axis {} of {}",
                       condition.size(), axis, to_string(shape)));
  MovedAxis picked;
  for (size_t i = 0; i < condition.size(); ++i) {
    if (condition[i] == 0) continue;
    if (i > 0 && condition[i - 1] != 0)
      ++picked.moves.back().count;
    else
      picked.moves.push_back({static_cast<int64_t>(i), picked.extent, 1, 1});
    ++picked.extent;
  }
  if (picked.moves.empty()) picked.moves.push_back({});
  if (picked.moves.size() > 1) picked.undivided = "what is picked lies apart";
  std::vector<MovedAxis> axes(static_cast<size_t>(shape.rank()));
  axes[static_cast<size_t>(axis)] = std::move(picked);
  return std::make_unique<Moved>("Compress", facts, std::move(axes));
}

}  // namespace

OperatorDefinitions define_compress() {
  return {{.name = "Compress",
           .inputs = {{"input"}},
           .outputs = {{"output"}},
           .attributes = {{"axis"}, {"condition", AttributeType::kInts}},
           .input_attributes = {{"condition", 1, 9}},
           .bind = bind_compress,
           .first_opset = 9}};
}

}  // namespace kerf::ops
