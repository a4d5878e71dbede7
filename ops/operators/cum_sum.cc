#include "ops/operators/cum_sum.h"

#include "ops/operators/indices.h"

namespace kerf::ops {

CumSum::CumSum(const NodeFacts& facts)
    : BoundOperator("CumSum", facts),
      exclusive_(attribute_int(facts.attributes, "exclusive", 0) != 0),
      reverse_(attribute_int(facts.attributes, "reverse", 0) != 0) {
  const Shape& x = shape(0);
  const DType type = input(0).spec.dtype;
  if (!facts.attributes.contains("axis"))
    throw Error(ErrorCode::kUsage, "CumSum needs its attribute 'axis'");
  if (type == DType::kBool || type == DType::kFloat16 || type == DType::kBFloat16)
    throw Error(ErrorCode::kUsage, format("CumSum cannot add up {}", to_string(type)));
  axis_ = resolved_axis("CumSum", attribute_int(facts.attributes, "axis", 0), x.rank());
  if (x[axis_] < 0)
    throw Error(
        ErrorCode::kUsage,
        format("CumSum of {} along axis {}, the batch: name another axis", to_string(x), axis_));
  outputs_ = {input(0).spec};
  space_ = {axes_of_tensor(x), {same_axes(x.rank())}, {same_axes(x.rank())}};
  space_.axes[static_cast<size_t>(axis_)].undivided = "every sum goes on from the one before";
}

Cost CumSum::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.outputs[0].shape.elements());
  const double bytes = 2 * bytes_of(local.outputs[0]);
  const bool weights = input(0).in_weight_gradient();
  return {n, weights ? 0 : n, weights ? n : 0, bytes, weights ? 0 : bytes, weights ? bytes : 0};
}

OperatorDefinitions define_cum_sum() {
  return {{.name = "CumSum",
           .inputs = {{"x"}},
           .outputs = {{"y"}},
           .attributes = {{"axis"}, {"exclusive"}, {"reverse"}},
           .input_attributes = {{"axis", 1, 11}},
           .bind = bind_as<CumSum>,
           .first_opset = 11}};
}

}  // namespace kerf::ops
