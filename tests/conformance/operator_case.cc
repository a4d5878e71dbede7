#include "tests/conformance/operator_case.h"

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

CaseInput absent() {
  CaseInput input;
  input.present = false;
  return input;
}

std::shared_ptr<const BoundOperator> bind(const OperatorCase& scene) {
  NodeFacts facts{scene.attributes, {}, scene.outputs};
  for (const CaseInput& input : scene.inputs) {
    const bool trained = input.role == Role::kActivation || input.role == Role::kParameter;
    facts.inputs.push_back({.spec = input.spec,
                            .role = input.role,
                            .wants_gradient = trained && is_floating(input.spec.dtype),
                            .present = input.present});
  }
  return bind_operator(find_operator(scene.op), facts);
}

}  // namespace kerf::ops
