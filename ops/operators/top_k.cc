#include "ops/operators/top_k.h"

#include "ops/operators/indices.h"

namespace kerf::ops {

TopK::TopK(const NodeFacts& facts)
    : BoundOperator("TopK", facts),
      axis_(resolved_axis("TopK", attribute_int(facts.attributes, "axis", -1), shape(0).rank())),
      largest_(attribute_int(facts.attributes, "largest", 1) != 0) {
  const Shape& x = shape(0);
  const DType type = input(0).spec.dtype;
  const int64_t k = attribute_int(facts.attributes, "k", -1);
  if (type == DType::kBool || type == DType::kFloat16 || type == DType::kBFloat16)
    throw Error(ErrorCode::kUsage, format("TopK cannot compare {}", to_string(type)));
  if (x[axis_] < 0 || k < 0 || k > x[axis_])
    throw Error(ErrorCode::kUsage,
                format("TopK cannot pick k = {} along axis {} of {}", k, axis_, to_string(x)));
  Shape y = x;
  y[axis_] = k;
  outputs_ = {{type, y}, {DType::kInt64, y}};
  OperandMap picked = same_axes(x.rank());
  picked.axes[static_cast<size_t>(axis_)].axes.clear();
  space_ = {axes_of_tensor(x), {same_axes(x.rank())}, {picked, picked}};
  space_.axes[static_cast<size_t>(axis_)].undivided = "some of all its indices are picked";
}

Cost TopK::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.inputs[0].shape.elements());
  const double picked = bytes_of(local.outputs[0]) + bytes_of(local.outputs[1]);
  const double bytes = bytes_of(local.inputs[0]) + picked;
  const bool weights = input(0).in_weight_gradient();
  return {n, 0, 0, bytes, weights ? 0 : bytes, weights ? bytes : 0};
}

BackwardReads TopK::backward_reads() const {
  BackwardReads reads;
  if (input(0).in_input_gradient()) reads.outputs_for_input_gradient = {1};
  if (input(0).in_weight_gradient()) reads.outputs_for_weight_gradient = {1};
  return reads;
}

OperatorDefinitions define_top_k() {
  return {{.name = "TopK",
           .inputs = {{"X"}},
           .outputs = {{"Values"}, {"Indices"}},
           .attributes = {{"axis"}, {"k"}, {"largest"}, {"sorted"}},
           .input_attributes = {{"k", 1, 10}},
           .bind = bind_as<TopK>}};
}

}  // namespace kerf::ops
