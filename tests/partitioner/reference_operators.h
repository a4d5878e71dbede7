// What operators compute, by plain loops over scalars that remember themselves: ONNX's definitions,
// read without Kerf's kernels, iterations or gradients.
#pragma once

#include <string>
#include <vector>

#include "ops/attributes.h"
#include "tests/partitioner/tape.h"

namespace kerf::tests {

// Concrete shape, row-major. Integers are constants.
struct ScalarTensor {
  ops::Shape shape;
  std::vector<Scalar> elements;
};

struct ReferenceCall {
  std::string op;
  const ops::Attributes& attributes;
  std::vector<const ScalarTensor*> inputs;  // null: absent
  std::vector<ops::Shape> outputs;          // concrete
  double normaliser = 1;                    // of losses
};

// Throws Error{kInternal} for an operator that it does not know.
std::vector<ScalarTensor> compute(const ReferenceCall& call);

}  // namespace kerf::tests
