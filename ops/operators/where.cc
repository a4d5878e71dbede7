#include "ops/operators/where.h"

namespace kerf::ops {

Where::Where(const NodeFacts& facts) : BoundOperator("Where", facts), repeated_("Where", facts) {
  if (input(0).spec.dtype != DType::kBool)
    throw Error(ErrorCode::kUsage,
                format("Where wants a condition of bool, not {}", to_string(input(0).spec.dtype)));
  if (input(1).spec.dtype != input(2).spec.dtype)
    throw Error(ErrorCode::kUsage,
                format("Where wants X and Y of one type, not {} and {}: cast one",
                       to_string(input(1).spec.dtype), to_string(input(2).spec.dtype)));
  outputs_ = {{input(1).spec.dtype, repeated_.output()}};
  space_ = repeated_.space();
}

Cost Where::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.outputs[0].shape.elements());
  const auto width = static_cast<double>(size_of(local.outputs[0].dtype));
  double in[3];
  for (size_t i = 0; i < 3; ++i)
    in[i] = static_cast<double>(local.inputs[i].shape.elements()) * (i == 0 ? 1 : width);
  Cost cost{n, 0, 0, width * n + in[0] + in[1] + in[2], 0, 0};
  for (size_t i = 1; i < 3; ++i) {
    const double bytes = width * n + in[0] + in[i];
    if (inputs()[i].in_input_gradient()) {
      cost.input_gradient_flops += n;
      cost.input_gradient_bytes += bytes;
    } else if (inputs()[i].in_weight_gradient()) {
      cost.weight_gradient_flops += n;
      cost.weight_gradient_bytes += bytes;
    }
  }
  return cost;
}

BackwardReads Where::backward_reads() const {
  BackwardReads reads;
  for (int i = 1; i < 3; ++i) {
    if (input(i).in_input_gradient()) reads.inputs_for_input_gradient = {0};
    if (input(i).in_weight_gradient()) reads.inputs_for_weight_gradient = {0};
  }
  return reads;
}

OperatorDefinitions define_where() {
  return {{.name = "Where",
           .inputs = {{"condition"}, {"X"}, {"Y"}},
           .outputs = {{"output"}},
           .attributes = {format_attribute()},
           .bind = bind_as<Where>,
           .channels_last = repeated_channels_last,
           .first_opset = 9}};
}

}  // namespace kerf::ops
