// What tests of values share: one operator on tensors of the host, on the CPU.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/conformance/operator_runner.h"

namespace kerf::ops {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline HostTensor floats(const Shape& shape, std::vector<float> values) {
  return {DType::kFloat32, shape, std::move(values), {}};
}
inline HostTensor integers(DType dtype, const Shape& shape, std::vector<int64_t> values) {
  return {dtype, shape, {}, std::move(values)};
}

// Of activations, of which those of floating-point numbers want a gradient.
inline std::shared_ptr<const BoundOperator> bound(const std::string& op,
                                                  const Attributes& attributes,
                                                  const std::vector<HostTensor>& inputs) {
  NodeFacts facts{attributes, {}, 1};
  for (const auto& input : inputs)
    facts.inputs.push_back(
        {{input.dtype, input.shape}, Role::kActivation, is_floating(input.dtype)});
  return bind_operator(find_operator(op), facts);
}

class OperatorValues : public testing::Test {
 protected:
  HostTensor forward(const std::string& op, const Attributes& attributes,
                     const std::vector<HostTensor>& inputs, const Moment& moment = {}) {
    OperatorRunner runner(bound(op, attributes, inputs), *device_, 0);
    return runner.forward(inputs, moment)[0];
  }
  HostTensor gradient(const std::string& op, const Attributes& attributes,
                      const std::vector<HostTensor>& inputs, const HostTensor& dy) {
    OperatorRunner runner(bound(op, attributes, inputs), *device_, 0);
    return runner.gradients(inputs, {}, {dy}, {{0, false, zeros(inputs[0].shape)}})[0];
  }

  std::unique_ptr<runtime::Device> device_ = runtime::make_cpu_device();
};

}  // namespace kerf::ops
