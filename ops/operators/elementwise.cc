#include "ops/operators/elementwise.h"

#include <algorithm>
#include <array>

#include "ops/image_format.h"

namespace kerf::ops {
namespace {

using ElementTraits = ElementwiseOperator::Traits;

template <size_t kIndex>
constexpr ElementTraits element_traits() {
  const auto& entry = std::get<kIndex>(kElementwise);
  return {entry.name, entry.flops,      entry.types,  kAsks<kIndex>,    kIsDerived<kIndex>,
          entry.of,   entry.parameters, entry.choice, entry.first_opset};
}

template <size_t... kIndex>
constexpr std::array<ElementTraits, kElementwises> every_trait(std::index_sequence<kIndex...>) {
  return {element_traits<kIndex>()...};
}

constexpr std::array<ElementTraits, kElementwises> kElements =
    every_trait(std::make_index_sequence<kElementwises>());

std::unique_ptr<const BoundOperator> bind_element(const NodeFacts& facts, std::string_view name) {
  std::vector<std::string_view> values;
  for (size_t entry = 0; entry < kElements.size(); ++entry) {
    const ElementTraits& traits = kElements[entry];
    if (traits.name != name) continue;
    if (chosen(traits.choice, facts.attributes))
      return std::make_unique<ElementwiseOperator>(facts, entry, traits);
    values.push_back(traits.choice.value);
  }
  throw Error(ErrorCode::kUsage, format("{} wants its attribute approximate to be {}", name,
                                        fmt::join(values, " or ")));
}

void add_attributes(const ElementTraits& traits, OperatorDefinition& definition) {
  for (size_t i = 0; i < kElementParameters; ++i) {
    const Parameter& parameter = traits.parameters[i];
    if (parameter.name == nullptr) continue;
    definition.attributes.push_back({parameter.name, parameter.type});
    if (parameter.as_input != nullptr) definition.input_attributes.push_back(parameter.as_input());
  }
  if (!traits.choice.attribute.empty())
    definition.attributes.push_back({std::string(traits.choice.attribute), traits.choice.type});
}

}  // namespace

ElementwiseOperator::ElementwiseOperator(const NodeFacts& facts, size_t entry,
                                         const ElementTraits& traits)
    : BoundOperator(traits.name, facts), entry_(entry), traits_(traits) {
  want_types(name(), input(0), "X", traits.types);
  for (size_t i = 0; i < kElementParameters; ++i) {
    const Parameter& parameter = traits.parameters[i];
    if (parameter.name == nullptr) continue;
    parameters_.of[i] =
        parameter.type == AttributeType::kInt
            ? static_cast<double>(attribute_int(facts.attributes, parameter.name,
                                                static_cast<int64_t>(parameter.otherwise)))
            : attribute_float(facts.attributes, parameter.name, parameter.otherwise);
  }
  outputs_ = {{traits.asks ? DType::kBool : input(0).spec.dtype, shape(0)}};
  const OperandMap map = same_axes(shape(0).rank());
  space_ = {axes_of_image(image_format(facts), shape(0)), {map}, {map}};
}

bool ElementwiseOperator::is_trained() const {
  return traits_.derived && input(0).spec.dtype == DType::kFloat32;
}

Cost ElementwiseOperator::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.outputs[0].shape.elements());
  const double x = n * static_cast<double>(size_of(input(0).spec.dtype));
  const double y = n * static_cast<double>(size_of(outputs_[0].dtype));
  if (!is_trained()) return {traits_.flops * n, 0, 0, x + y, 0, 0};
  const double read = traits_.of == DerivativeOf::kNothing ? 0 : x;
  return {traits_.flops * n, traits_.flops * n, 0, x + y, x + y + read, 0};
}

BackwardReads ElementwiseOperator::backward_reads() const {
  BackwardReads reads;
  if (!is_trained()) return reads;
  if (traits_.of == DerivativeOf::kOutput) reads.outputs_for_input_gradient = {0};
  if (traits_.of == DerivativeOf::kInput) reads.inputs_for_input_gradient = {0};
  return reads;
}

bool ElementwiseOperator::may_overwrite(int) const {
  return size_of(outputs_[0].dtype) == size_of(input(0).spec.dtype);
}

OperatorDefinitions define_elementwise() {
  OperatorDefinitions all;
  for (const ElementTraits& traits : kElements) {
    const bool again = std::any_of(all.begin(), all.end(), [&](const OperatorDefinition& each) {
      return each.name == traits.name;
    });
    if (again) continue;
    OperatorDefinition definition{.name = traits.name, .inputs = {{"X"}}, .outputs = {{"Y"}}};
    definition.attributes = {format_attribute()};
    add_attributes(traits, definition);
    definition.channels_last = image_channels_last;
    definition.first_opset = traits.first_opset;
    definition.bind = [name = traits.name](const NodeFacts& facts) {
      return bind_element(facts, name);
    };
    all.push_back(std::move(definition));
  }
  return all;
}

}  // namespace kerf::ops
