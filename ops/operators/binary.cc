#include "ops/operators/binary.h"

#include <algorithm>
#include <array>

namespace kerf::ops {
namespace {

using Traits = BinaryOperator::Traits;

template <size_t kIndex>
constexpr Traits traits_of() {
  const auto& entry = std::get<kIndex>(kBinary);
  Traits traits{entry.name,        entry.flops, entry.types,  kGivesBool<kIndex>,
                kIsSmooth<kIndex>, {},          entry.choice, entry.first_opset};
  if constexpr (kIsSmooth<kIndex>) {
    traits.reads[0] = entry.slope_a.reads;
    traits.reads[1] = entry.slope_b.reads;
  }
  return traits;
}

template <size_t... kIndex>
constexpr std::array<Traits, kBinaries> all_traits(std::index_sequence<kIndex...>) {
  return {traits_of<kIndex>()...};
}

constexpr std::array<Traits, kBinaries> kTraits = all_traits(std::make_index_sequence<kBinaries>());

std::unique_ptr<const BoundOperator> bind_binary(const NodeFacts& facts, std::string_view name) {
  std::vector<std::string_view> values;
  std::string_view attribute;
  for (size_t entry = 0; entry < kTraits.size(); ++entry) {
    const Traits& traits = kTraits[entry];
    if (traits.name != name) continue;
    if (chosen(traits.choice, facts.attributes))
      return std::make_unique<BinaryOperator>(facts, entry, traits);
    attribute = traits.choice.attribute;
    values.push_back(traits.choice.value);
  }
  throw Error(ErrorCode::kUsage,
              format("{} wants an attribute {} of {}", name, attribute, fmt::join(values, " or ")));
}

// Pow's exponent is converted to what its base is computed in.
bool may_differ(std::string_view name) { return name == "Pow"; }

// What is not repeated itself.
bool is_one_sided(std::string_view name) { return name == "PRelu"; }

}  // namespace

BinaryOperator::BinaryOperator(const NodeFacts& facts, size_t entry, const Traits& traits)
    : BoundOperator(traits.name, facts),
      entry_(entry),
      traits_(traits),
      repeated_(traits.name, facts) {
  want_types(name(), input(0), "its first input", traits.types);
  want_types(name(), input(1), "its second input", traits.types);
  const DType dtype = input(0).spec.dtype;
  if (input(1).spec.dtype != dtype && !may_differ(name()))
    throw Error(ErrorCode::kUsage,
                format("{} wants two inputs of one type, not {} and {}: cast one", name(),
                       to_string(dtype), to_string(input(1).spec.dtype)));
  if (is_one_sided(name()) && !(repeated_.output() == shape(0)))
    throw Error(ErrorCode::kUsage, format("{} cannot repeat a slope of {} over {}", name(),
                                          to_string(shape(1)), to_string(shape(0))));
  outputs_ = {{traits.gives_bool ? DType::kBool : dtype, repeated_.output()}};
  space_ = repeated_.space();
}

bool BinaryOperator::is_trained() const {
  return traits_.smooth && input(0).spec.dtype == DType::kFloat32 &&
         input(1).spec.dtype == DType::kFloat32;
}

Cost BinaryOperator::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.outputs[0].shape.elements());
  const double y = n * static_cast<double>(size_of(local.outputs[0].dtype));
  double in[2];
  for (size_t i = 0; i < 2; ++i)
    in[i] = static_cast<double>(local.inputs[i].shape.elements()) *
            static_cast<double>(size_of(local.inputs[i].dtype));
  Cost cost{traits_.flops * n, 0, 0, y + in[0] + in[1], 0, 0};
  for (size_t i = 0; i < 2; ++i) {
    const Operand& operand = inputs()[i];
    if (!operand.in_input_gradient() && !operand.in_weight_gradient()) continue;
    const bool sums = !(aligned(static_cast<int>(i), operand.spec.shape) == outputs_[0].shape);
    const unsigned reads = traits_.reads[i];
    const double flops = (reads == kReadsNothing ? 0 : traits_.flops * n) + (sums ? n : 0);
    const double bytes = y + in[i] + ((reads & kReadsA) != 0 ? in[0] : 0) +
                         ((reads & kReadsB) != 0 ? in[1] : 0) + ((reads & kReadsY) != 0 ? y : 0);
    (operand.in_input_gradient() ? cost.input_gradient_flops : cost.weight_gradient_flops) += flops;
    (operand.in_input_gradient() ? cost.input_gradient_bytes : cost.weight_gradient_bytes) += bytes;
  }
  return cost;
}

BackwardReads BinaryOperator::backward_reads() const {
  BackwardReads reads;
  const auto add = [](std::vector<int>& list, int index) {
    if (std::find(list.begin(), list.end(), index) == list.end()) list.push_back(index);
  };
  for (int i = 0; i < 2; ++i) {
    const bool weight = input(i).in_weight_gradient();
    if (!weight && !input(i).in_input_gradient()) continue;
    const unsigned read = traits_.reads[i];
    auto& ins = weight ? reads.inputs_for_weight_gradient : reads.inputs_for_input_gradient;
    auto& outs = weight ? reads.outputs_for_weight_gradient : reads.outputs_for_input_gradient;
    if ((read & kReadsA) != 0) add(ins, 0);
    if ((read & kReadsB) != 0) add(ins, 1);
    if ((read & kReadsY) != 0) add(outs, 0);
  }
  return reads;
}

bool BinaryOperator::may_overwrite(int index) const {
  return shape(index) == outputs_[0].shape && input(index).spec.dtype == outputs_[0].dtype;
}

OperatorDefinitions define_binary() {
  OperatorDefinitions all;
  for (const Traits& traits : kTraits) {
    const bool again = std::any_of(all.begin(), all.end(), [&](const OperatorDefinition& each) {
      return each.name == traits.name;
    });
    if (again) continue;
    OperatorDefinition definition{
        .name = traits.name, .inputs = {{"A"}, {"B"}}, .outputs = {{"C"}}};
    definition.attributes = {format_attribute()};
    if (!traits.choice.attribute.empty())
      definition.attributes.push_back({std::string(traits.choice.attribute), traits.choice.type});
    definition.bind = [name = traits.name](const NodeFacts& facts) {
      return bind_binary(facts, name);
    };
    definition.channels_last = repeated_channels_last;
    definition.first_opset = traits.first_opset;
    all.push_back(std::move(definition));
  }
  return all;
}

}  // namespace kerf::ops
