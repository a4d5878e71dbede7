// What operators cost that are bilinear in their inputs 0 and 1: products and convolutions.
#pragma once

#include <algorithm>

#include "ops/operator.h"

namespace kerf::ops {

// `flops` and `bytes` are those of one product. Forward is one, and the gradient of each of the two
// that wants one is another, of I or of W.
inline Cost product_cost(const BoundOperator& op, double flops, double bytes) {
  Cost cost{flops, 0, 0, bytes, 0, 0};
  for (size_t i = 0; i < std::min<size_t>(2, op.inputs().size()); ++i) {
    const Operand& operand = op.inputs()[i];
    if (operand.in_input_gradient()) {
      cost.input_gradient_flops += flops;
      cost.input_gradient_bytes += bytes;
    } else if (operand.in_weight_gradient()) {
      cost.weight_gradient_flops += flops;
      cost.weight_gradient_bytes += bytes;
    }
  }
  return cost;
}

// Adds what a bias costs that is added to each of `outputs` numbers, and whose gradient is their
// sum. `bytes` of the bias.
inline void add_bias_cost(const Operand& bias, double outputs, double bytes, Cost& cost) {
  const double read = 4 * outputs + bytes;
  cost.forward_flops += outputs;
  cost.forward_bytes += bytes;
  if (bias.in_input_gradient()) {
    cost.input_gradient_flops += outputs;
    cost.input_gradient_bytes += read;
  } else if (bias.in_weight_gradient()) {
    cost.weight_gradient_flops += outputs;
    cost.weight_gradient_bytes += read;
  }
}

}  // namespace kerf::ops
