#include "ops/operators/one_hot.h"

#include "ops/operators/indices.h"

namespace kerf::ops {

OneHot::OneHot(const NodeFacts& facts) : BoundOperator("OneHot", facts) {
  const Shape& indices = shape(0);
  const DType type = input(0).spec.dtype;
  if (type == DType::kBool || type == DType::kFloat16 || type == DType::kBFloat16)
    throw Error(ErrorCode::kUsage,
                format("OneHot wants numbers as indices, not {}", to_string(type)));
  const int64_t depth = attribute_int(facts.attributes, "depth", 0);
  const auto values = facts.attributes.find("values");
  if (depth < 1 || values == facts.attributes.end())
    throw Error(ErrorCode::kUsage, "OneHot needs its attributes 'depth' and 'values'");
  const auto& pair = std::get<TensorLiteral>(values->second);
  if (pair.bytes.size() != 2 * size_of(pair.dtype))
    throw Error(ErrorCode::kUsage,
                format("OneHot wants two values, off and on, not {}", to_string(pair.shape)));
  values_ = pair.bytes;
  axis_ = resolved_axis("OneHot", attribute_int(facts.attributes, "axis", -1), indices.rank() + 1);
  std::vector<int64_t> extents(indices.begin(), indices.end());
  extents.insert(extents.begin() + axis_, depth);
  outputs_ = {{pair.dtype, Shape(extents)}};
  space_ = {axes_of_tensor(outputs_[0].shape), {}, {same_axes(indices.rank() + 1)}};
  std::vector<std::vector<int>> own;
  for (int i = 0; i < indices.rank(); ++i) own.push_back({i < axis_ ? i : i + 1});
  space_.inputs = {operand_axes(own)};
}

Cost OneHot::cost(const LocalSpecs& local) const {
  return {0, 0, 0, bytes_of(local.inputs[0]) + bytes_of(local.outputs[0]), 0, 0};
}

OperatorDefinitions define_one_hot() {
  return {{.name = "OneHot",
           .inputs = {{"indices"}},
           .outputs = {{"output"}},
           .attributes = {{"axis"}, {"depth"}, {"values", AttributeType::kTensor}},
           .input_attributes = {{"depth", 1, 11}, {"values", 2, 11}},
           .bind = bind_as<OneHot>,
           .first_opset = 11}};  // before it, negative indices had no place
}

}  // namespace kerf::ops
