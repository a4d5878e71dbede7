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
  std::vector<int64_t> integers;   // instead, where no rounding is allowed; of uint64 the bits
  bool keeps_sign = false;         // of zeros too: nothing is computed
};

// Output `which`, straight from the case's attributes; nothing where there is no reference.
std::optional<Reference> reference_of(const OperatorCase& scene,
                                      const std::vector<HostTensor>& inputs, const Shape& output,
                                      int which = 0);
// Of integers, exactly.
std::optional<Reference> integer_reference(const OperatorCase& scene,
                                           const std::vector<HostTensor>& inputs,
                                           const Shape& output);
// Of outputs behind the first.
std::optional<Reference> further_reference(const OperatorCase& scene,
                                           const std::vector<HostTensor>& inputs,
                                           const Shape& output, int which);
// Of sums and normalisations over channels and rows.
std::optional<Reference> statistics_reference(const OperatorCase& scene,
                                              const std::vector<HostTensor>& inputs,
                                              const Shape& output, int which);
// The same for convolutions, pools and normalisations, all as ONNX has them.
std::optional<Reference> layer_reference(const OperatorCase& scene,
                                         const std::vector<HostTensor>& inputs,
                                         const Shape& output);
std::optional<Reference> recurrent_reference(const OperatorCase& scene,
                                             const std::vector<HostTensor>& inputs,
                                             const Shape& output, int which);
std::optional<Reference> attention_reference(const OperatorCase& scene,
                                             const std::vector<HostTensor>& inputs,
                                             const Shape& output);
// The same for what is computed element by element.
std::optional<Reference> pointwise_reference(const OperatorCase& scene,
                                             const std::vector<HostTensor>& inputs,
                                             const Shape& output);
// The same for what reads, moves, picks and repeats, and for reductions, in the order of axes that
// the case has them in.
std::optional<Reference> moving_reference(const OperatorCase& scene,
                                          const std::vector<HostTensor>& inputs,
                                          const Shape& output);
std::optional<Reference> reduction_reference(const OperatorCase& scene,
                                             const std::vector<HostTensor>& inputs,
                                             const Shape& output);
// The same for softmax and losses of labels.
std::optional<Reference> row_reference(const OperatorCase& scene,
                                       const std::vector<HostTensor>& inputs, int which);

}  // namespace kerf::ops
