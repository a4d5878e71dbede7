// The cases of all operators, and those that are large enough for threads.
#include "tests/conformance/operator_case.h"

namespace kerf::ops {

std::vector<OperatorCase> operator_cases() {
  std::vector<OperatorCase> cases;
  for (const auto& family : {product_cases(), window_cases(), pointwise_cases(), broadcast_cases(),
                             sequence_cases(), moving_cases(), reduction_cases(), layer_cases(),
                             attention_cases(), unary_cases(), recurrent_cases()})
    for (const OperatorCase& scene : family) {
      cases.push_back(scene);
      if (const auto turned = channels_last(scene)) cases.push_back(*turned);
    }
  return cases;
}

}  // namespace kerf::ops
