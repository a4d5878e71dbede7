#include "ops/operator.h"

#include <algorithm>
#include <array>

namespace kerf::ops {
namespace {

constexpr std::array<std::string_view, 7> kRoleNames = {
    "input", "label", "parameter", "activation", "frozen parameter", "constant", "state"};

using Count = FormalOperand::Count;

bool is_variadic(const OperatorDefinition& definition) {
  return !definition.inputs.empty() && definition.inputs.back().count == Count::kVariadic;
}

size_t least_inputs(const OperatorDefinition& definition) {
  size_t least = 0;
  for (size_t i = 0; i < definition.inputs.size(); ++i)
    if (definition.inputs[i].count != Count::kOptional) least = i + 1;
  return least;
}

void check_inputs(const OperatorDefinition& definition, const std::vector<Operand>& inputs) {
  const size_t least = least_inputs(definition);
  const size_t most = definition.inputs.size();
  if (inputs.size() < least || (inputs.size() > most && !is_variadic(definition))) {
    const std::string takes = is_variadic(definition) ? format("at least {}", least)
                              : least == most         ? format("{}", least)
                                                      : format("{} to {}", least, most);
    throw Error(ErrorCode::kUsage,
                format("{} takes {} inputs, not {}", definition.name, takes, inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const FormalOperand& formal = definition.inputs[std::min(i, most - 1)];
    if (!inputs[i].present && formal.count != Count::kOptional)
      throw Error(ErrorCode::kUsage, format("{} needs its input {}", definition.name, formal.name));
  }
}

void check_outputs(const OperatorDefinition& definition, int outputs) {
  const size_t most = definition.outputs.size();
  const bool variadic = most > 0 && definition.outputs.back().count == Count::kVariadic;
  if (outputs < 1 || (static_cast<size_t>(outputs) > most && !variadic))
    throw Error(ErrorCode::kUsage,
                format("{} gives 1 to {} outputs, not {}", definition.name, most, outputs));
}

void check_attributes(const OperatorDefinition& definition, const Attributes& attributes) {
  for (const auto& [name, value] : attributes) {
    const auto formal =
        std::find_if(definition.attributes.begin(), definition.attributes.end(),
                     [&wanted = name](const FormalAttribute& each) { return each.name == wanted; });
    if (formal == definition.attributes.end()) {
      std::vector<std::string> known;
      for (const FormalAttribute& each : definition.attributes) known.push_back(each.name);
      throw Error(ErrorCode::kUsage,
                  format("{} has no attribute '{}'; it has: {}", definition.name, name,
                         known.empty() ? "none" : format("{}", fmt::join(known, ", "))));
    }
    if (value.index() != static_cast<size_t>(formal->type))
      throw Error(ErrorCode::kUsage, format("{}: attribute '{}' must be {}", definition.name, name,
                                            to_string(formal->type)));
  }
}

Box box_of(const BoundOperator& op, const OperandMap& map, const Shape& shape,
           const Box& iterations, int64_t largest) {
  return operand_box(op.space(), map, shape, iterations, largest);
}

// Extents come from files: no operator's arithmetic with one of them and an attribute may overflow,
// nor may elements be more than can be counted.
void check_extents(const OperatorDefinition& definition, const Shape& shape) {
  constexpr int64_t kMost = int64_t{1} << 40;
  for (const int64_t extent : shape)
    if (extent > kMost || extent < -kMost)
      throw Error(ErrorCode::kUsage, format("{} cannot take or give {}: {} indices of an axis are "
                                            "the most",
                                            definition.name, to_string(shape), kMost));
  (void)shape.elements_per_sample();
}

ValueSpec local(const ValueSpec& spec, const Box& box, int64_t samples) {
  return {spec.dtype, local_shape(box, spec.shape, samples)};
}

}  // namespace

std::string_view to_string(Role role) { return kRoleNames[static_cast<size_t>(role)]; }

BackwardReads product_reads(const BoundOperator& op) {
  BackwardReads reads;
  for (int i = 0; i < 2; ++i) {
    const Operand& operand = op.inputs()[static_cast<size_t>(i)];
    if (operand.in_input_gradient()) reads.inputs_for_input_gradient.push_back(1 - i);
    if (operand.in_weight_gradient()) reads.inputs_for_weight_gradient.push_back(1 - i);
  }
  return reads;
}

std::shared_ptr<const BoundOperator> bind_operator(const OperatorDefinition& definition,
                                                   const NodeFacts& facts) {
  check_inputs(definition, facts.inputs);
  check_outputs(definition, facts.outputs);
  check_attributes(definition, facts.attributes);
  for (const Operand& operand : facts.inputs)
    if (operand.present) check_extents(definition, operand.spec.shape);
  std::shared_ptr<const BoundOperator> bound = definition.bind(facts);
  const IterationSpace& space = bound->space();
  KERF_CHECK(space.inputs.size() == facts.inputs.size() &&
                 space.outputs.size() == bound->outputs().size() &&
                 bound->outputs().size() >= static_cast<size_t>(facts.outputs),
             "{} is bound with {} inputs and {} outputs, its node has {} and {}", definition.name,
             space.inputs.size(), space.outputs.size(), facts.inputs.size(), facts.outputs);
  for (const ValueSpec& output : bound->outputs()) check_extents(definition, output.shape);
  return bound;
}

Box input_box(const BoundOperator& op, int input, const Box& iterations, int64_t largest) {
  const auto i = static_cast<size_t>(input);
  if (!op.has(input)) return {};
  return box_of(op, op.space().inputs[i], op.inputs()[i].spec.shape, iterations, largest);
}

Box output_box(const BoundOperator& op, int output, const Box& iterations, int64_t largest) {
  const auto i = static_cast<size_t>(output);
  return box_of(op, op.space().outputs[i], op.outputs()[i].shape, iterations, largest);
}

LocalSpecs local_specs(const BoundOperator& op, const Box& iterations, int64_t largest,
                       int64_t samples) {
  LocalSpecs specs{.iterations = iterations, .inputs = {}, .outputs = {}};
  for (size_t i = 0; i < op.inputs().size(); ++i)
    specs.inputs.push_back(op.has(static_cast<int>(i))
                               ? local(op.inputs()[i].spec,
                                       input_box(op, static_cast<int>(i), iterations, largest),
                                       samples)
                               : ValueSpec{});
  for (size_t i = 0; i < op.outputs().size(); ++i)
    specs.outputs.push_back(
        local(op.outputs()[i], output_box(op, static_cast<int>(i), iterations, largest), samples));
  return specs;
}

void want_float32(std::string_view op, const Operand& operand, std::string_view name) {
  if (operand.present && operand.spec.dtype != DType::kFloat32)
    throw Error(ErrorCode::kUsage,
                format("{} wants float32 for {}, not {}", op, name, to_string(operand.spec.dtype)));
}

int resolved_axis(std::string_view op, int64_t axis, int rank) {
  const int64_t resolved = axis < 0 ? axis + rank : axis;
  if (resolved < 0 || resolved >= rank)
    throw Error(ErrorCode::kUsage, format("{}: there is no axis {} among {}", op, axis, rank));
  return static_cast<int>(resolved);
}

}  // namespace kerf::ops
