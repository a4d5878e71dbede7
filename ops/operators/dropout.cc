#include "ops/operators/dropout.h"

namespace kerf::ops {

Dropout::Dropout(const NodeFacts& facts)
    : BoundOperator("Dropout", facts),
      ratio_(attribute_float(facts.attributes, "ratio", 0.5)),
      seed_(static_cast<uint64_t>(attribute_int(facts.attributes, "seed", 0))) {
  check_dropout_ratio(ratio_);
  want_float32("Dropout", input(0), "data");
  if (has(1)) {
    const ValueSpec& spec = input(1).spec;
    if (facts.attributes.contains("ratio"))
      throw Error(ErrorCode::kUsage, "Dropout has its ratio twice: as attribute and as input");
    if (spec.dtype != DType::kFloat32 || spec.shape.batched() || spec.shape.elements() != 1)
      throw Error(ErrorCode::kUsage, format("Dropout wants its ratio as one float32, not {} {}",
                                            to_string(spec.dtype), to_string(spec.shape)));
  }
  outputs_ = {input(0).spec};
  const OperandMap map = same_axes(shape(0).rank());
  space_ = {axes_of_tensor(shape(0)), {map}, {map}};
  if (facts.outputs > 1) {
    outputs_.push_back({DType::kBool, shape(0)});
    space_.outputs.push_back(map);
  }
  if (inputs().size() > 1)
    space_.inputs.push_back(operand_axes(
        std::vector<std::vector<int>>(has(1) ? static_cast<size_t>(shape(1).rank()) : 0)));
}

Cost Dropout::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.outputs[0].shape.elements());
  const double mask = outputs_.size() > 1 ? n : 0;
  return {n, n, 0, 8 * n + mask, 8 * n, 0};
}

void check_dropout_ratio(double ratio) {
  if (!(ratio >= 0 && ratio < 1))
    throw Error(ErrorCode::kUsage, format("Dropout's ratio {} is not in [0, 1)", ratio));
}

OperatorDefinitions define_dropout() {
  return {{.name = "Dropout",
           .inputs = {{"data"}, {"ratio", FormalOperand::Count::kOptional}},
           .outputs = {{"output"}, {"mask", FormalOperand::Count::kOptional}},
           .attributes = {{"ratio", AttributeType::kFloat}, {"seed"}, {"training_mode"}},
           .input_attributes = {{"ratio", 1, 12}, {"training_mode", 2, 12}},
           .bind = bind_as<Dropout>}};
}

}  // namespace kerf::ops
