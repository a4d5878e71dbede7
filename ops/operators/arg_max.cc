#include "ops/operators/arg_max.h"

#include "ops/operators/indices.h"

namespace kerf::ops {

ArgMax::ArgMax(std::string_view name, bool largest, const NodeFacts& facts)
    : BoundOperator(name, facts),
      axis_(resolved_axis(name, attribute_int(facts.attributes, "axis", 0), shape(0).rank())),
      largest_(largest),
      last_(attribute_int(facts.attributes, "select_last_index", 0) != 0) {
  const Shape& x = shape(0);
  const DType type = input(0).spec.dtype;
  if (type == DType::kBool || type == DType::kFloat16 || type == DType::kBFloat16)
    throw Error(ErrorCode::kUsage, format("{} cannot compare {}", name, to_string(type)));
  if (x[axis_] < 1)
    throw Error(ErrorCode::kUsage,
                format("{} of {} along axis {}, the batch or nothing: name another axis", name,
                       to_string(x), axis_));
  const bool keep = attribute_int(facts.attributes, "keepdims", 1) != 0;
  std::vector<int64_t> extents;
  std::vector<std::vector<int>> kept;
  for (int i = 0; i < x.rank(); ++i) {
    if (i == axis_ && !keep) continue;
    extents.push_back(i == axis_ ? 1 : x[i]);
    kept.push_back(i == axis_ ? std::vector<int>{} : std::vector<int>{i});
  }
  outputs_ = {{DType::kInt64, Shape(extents)}};
  space_ = {axes_of_tensor(x), {same_axes(x.rank())}, {operand_axes(kept)}};
  space_.axes[static_cast<size_t>(axis_)].undivided = "one of all its indices is picked";
}

Cost ArgMax::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.inputs[0].shape.elements());
  return {n, 0, 0, bytes_of(local.inputs[0]) + bytes_of(local.outputs[0]), 0, 0};
}

OperatorDefinitions define_arg_max() {
  OperatorDefinitions both;
  for (const bool largest : {true, false})
    both.push_back({.name = largest ? "ArgMax" : "ArgMin",
                    .inputs = {{"data"}},
                    .outputs = {{"reduced"}},
                    .attributes = {{"axis"}, {"keepdims"}, {"select_last_index"}},
                    .bind = [largest](const NodeFacts& facts) {
                      return std::make_unique<ArgMax>(largest ? "ArgMax" : "ArgMin", largest,
                                                      facts);
                    }});
  return both;
}

}  // namespace kerf::ops
