#include "ops/operators/reverse_sequence.h"

#include "ops/operators/indices.h"

namespace kerf::ops {

ReverseSequence::ReverseSequence(const NodeFacts& facts) : BoundOperator("ReverseSequence", facts) {
  const Shape& x = shape(0);
  const int64_t time = attribute_int(facts.attributes, "time_axis", 0);
  const int64_t samples = attribute_int(facts.attributes, "batch_axis", 1);
  const Operand& lengths = input(1);
  time_axis_ = time == 0 ? 0 : 1;
  const bool axes =
      x.rank() >= 2 && time == time_axis_ && samples == 1 - time_axis_ && x[time_axis_] >= 0;
  if (!axes)
    throw Error(
        ErrorCode::kUsage,
        format("ReverseSequence of {} along time axis {} and batch axis {}: they are axes 0 "
               "and 1, and time is not the batch",
               to_string(x), time, samples));
  if (lengths.spec.dtype != DType::kInt64 || lengths.spec.shape.rank() != 1 ||
      lengths.spec.shape[0] != x[1 - time_axis_])
    throw Error(ErrorCode::kUsage,
                format("ReverseSequence of {} wants an int64 length for each sample, not {} {}",
                       to_string(x), to_string(lengths.spec.dtype), to_string(lengths.spec.shape)));
  outputs_ = {input(0).spec};
  space_ = {axes_of_tensor(x),
            {same_axes(x.rank()), operand_axes({{1 - time_axis_}})},
            {same_axes(x.rank())}};
  space_.axes[static_cast<size_t>(time_axis_)].undivided =
      "what comes last in time goes where the first was";
}

Cost ReverseSequence::cost(const LocalSpecs& local) const {
  const double bytes = 2 * bytes_of(local.outputs[0]) + bytes_of(local.inputs[1]);
  const bool weights = input(0).in_weight_gradient();
  return {0, 0, 0, bytes, weights ? 0 : bytes, weights ? bytes : 0};
}

BackwardReads ReverseSequence::backward_reads() const {
  BackwardReads reads;
  if (input(0).in_input_gradient()) reads.inputs_for_input_gradient = {1};
  if (input(0).in_weight_gradient()) reads.inputs_for_weight_gradient = {1};
  return reads;
}

OperatorDefinitions define_reverse_sequence() {
  return {{.name = "ReverseSequence",
           .inputs = {{"input"}, {"sequence_lens"}},
           .outputs = {{"Y"}},
           .attributes = {{"batch_axis"}, {"time_axis"}},
           .bind = bind_as<ReverseSequence>,
           .first_opset = 10}};
}

}  // namespace kerf::ops
