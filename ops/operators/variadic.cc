#include "ops/operators/variadic.h"

#include <algorithm>

namespace kerf::ops {

VariadicOperator::VariadicOperator(const NodeFacts& facts, const char* name, Types types,
                                   Sharing share)
    : BoundOperator(name, facts), share_(share), repeated_(name, facts) {
  for (const Operand& operand : inputs()) {
    want_types(name, operand, "its inputs", types);
    if (operand.spec.dtype != input(0).spec.dtype)
      throw Error(ErrorCode::kUsage,
                  format("{} wants inputs of one type, not {} and {}: cast one", name,
                         to_string(input(0).spec.dtype), to_string(operand.spec.dtype)));
  }
  outputs_ = {{input(0).spec.dtype, repeated_.output()}};
  space_ = repeated_.space();
}

Cost VariadicOperator::cost(const LocalSpecs& local) const {
  const auto width = static_cast<double>(size_of(local.outputs[0].dtype));
  const double n = static_cast<double>(local.outputs[0].shape.elements());
  const auto count = static_cast<double>(inputs().size());
  double all = 0;
  for (const ValueSpec& spec : local.inputs) all += static_cast<double>(spec.shape.elements());
  Cost cost{count * n, 0, 0, width * (n + all), 0, 0};
  // Who shares a gradient is counted for each input that wants one.
  const double flops = share_ == Sharing::kEqual ? (count + 1) * n : n;
  const double read = share_ == Sharing::kEqual ? 2 * n + all : n;
  for (size_t i = 0; i < inputs().size(); ++i) {
    const double bytes = width * (read + static_cast<double>(local.inputs[i].shape.elements()));
    if (inputs()[i].in_input_gradient()) {
      cost.input_gradient_flops += flops;
      cost.input_gradient_bytes += bytes;
    } else if (inputs()[i].in_weight_gradient()) {
      cost.weight_gradient_flops += flops;
      cost.weight_gradient_bytes += bytes;
    }
  }
  return cost;
}

BackwardReads VariadicOperator::backward_reads() const {
  BackwardReads reads;
  if (share_ != Sharing::kEqual) return reads;
  std::vector<int> all;
  for (int i = 0; i < static_cast<int>(inputs().size()); ++i) all.push_back(i);
  const auto any = [&](bool (Operand::*wants)() const) {
    return std::any_of(inputs().begin(), inputs().end(),
                       [&](const Operand& operand) { return (operand.*wants)(); });
  };
  if (any(&Operand::in_input_gradient)) {
    reads.inputs_for_input_gradient = all;
    reads.outputs_for_input_gradient = {0};
  }
  if (any(&Operand::in_weight_gradient)) {
    reads.inputs_for_weight_gradient = all;
    reads.outputs_for_weight_gradient = {0};
  }
  return reads;
}

bool VariadicOperator::may_overwrite(int index) const {
  return index == 0 && shape(0) == outputs_[0].shape;
}

OperatorDefinitions define_variadic() {
  OperatorDefinitions all;
  std::apply(
      [&](const auto&... entry) {
        const auto add = [&](const char* name, Types types, Sharing share) {
          OperatorDefinition definition{.name = name,
                                        .inputs = {{"data_0", FormalOperand::Count::kVariadic}},
                                        .outputs = {{"Y"}}};
          definition.attributes = {format_attribute()};
          definition.bind = [=](const NodeFacts& facts) {
            return std::make_unique<VariadicOperator>(facts, name, types, share);
          };
          definition.channels_last = repeated_channels_last;
          definition.first_opset = 6;
          all.push_back(std::move(definition));
        };
        (add(entry.name, entry.types, entry.share), ...);
      },
      kVariadic);
  return all;
}

}  // namespace kerf::ops
