#include "tests/conformance/operator_case.h"

#include "ops/image_format.h"

namespace kerf::ops {

CaseInput activation(const Shape& shape, Draw draw) {
  return {{DType::kFloat32, shape}, Role::kActivation, draw};
}

CaseInput parameter(const Shape& shape, Draw draw) {
  return {{DType::kFloat32, shape}, Role::kParameter, draw};
}

CaseInput state(const Shape& shape, Draw draw) {
  return {{DType::kFloat32, shape}, Role::kState, draw};
}

CaseInput classes(const Shape& shape, int64_t count) {
  return {{DType::kInt64, shape}, Role::kLabel, Draw::kClass, count};
}

CaseInput numbers(DType dtype, const Shape& shape, Draw draw) {
  return {{dtype, shape}, Role::kInput, draw};
}

CaseInput integers(DType dtype, const Shape& shape, Draw draw, int64_t limit) {
  return {{dtype, shape}, Role::kInput, draw, limit};
}

CaseInput absent() {
  CaseInput input;
  input.present = false;
  return input;
}

static NodeFacts facts_of(const OperatorCase& scene) {
  NodeFacts facts{scene.attributes, {}, scene.outputs};
  for (const CaseInput& input : scene.inputs) {
    const bool trained = input.role == Role::kActivation || input.role == Role::kParameter;
    facts.inputs.push_back({.spec = input.spec,
                            .role = input.role,
                            .wants_gradient = trained && is_floating(input.spec.dtype),
                            .present = input.present});
  }
  return facts;
}

std::optional<OperatorCase> channels_last(const OperatorCase& scene) {
  const OperatorDefinition& definition = find_operator(scene.op);
  if (definition.channels_last == nullptr) return std::nullopt;
  const auto node = definition.channels_last(facts_of(scene));
  if (!node) return std::nullopt;
  OperatorCase turned = scene;
  turned.name += "_channels_last";
  turned.attributes = node->attributes;
  for (const int image : node->images) {
    Shape& shape = turned.inputs[static_cast<size_t>(image)].spec.shape;
    shape = stored_shape(ImageFormat::kChannelsLast, shape);
  }
  return turned;
}

std::shared_ptr<const BoundOperator> bind(const OperatorCase& scene) {
  return bind_operator(find_operator(scene.op), facts_of(scene));
}

}  // namespace kerf::ops
