// What some operators compute, by plain loops in float64: a second opinion on their kernels.
#pragma once

#include <optional>
#include <vector>

#include "tests/conformance/operator_case.h"
#include "tests/conformance/operator_runner.h"

namespace kerf::ops {

struct Reference {
  std::vector<double> values;
  std::vector<double> magnitudes;  // the sum of the absolute values of each element's terms
  int64_t terms = 1;               // of each sum, at most
};

// Output 0 of Conv, Gemm, MatMul, Add, MaxPool and AveragePool, straight from the case's
// attributes; nothing for other operators.
std::optional<Reference> reference_of(const OperatorCase& scene,
                                      const std::vector<HostTensor>& inputs, const Shape& output);
// The same for what is computed element by element.
std::optional<Reference> pointwise_reference(const OperatorCase& scene,
                                             const std::vector<HostTensor>& inputs,
                                             const Shape& output);
// The same for softmax and losses of labels.
std::optional<Reference> row_reference(const OperatorCase& scene,
                                       const std::vector<HostTensor>& inputs);

}  // namespace kerf::ops
