// What operators cost that are bilinear in their inputs 0 and 1: products and convolutions.
#pragma once

#include <algorithm>

#include "ops/operator.h"

namespace kerf::ops {

// Adds what a gradient of the operand costs, if it wants one of I or of W.
inline void add_gradient_cost(const Operand& operand, double flops, double bytes, Cost& cost) {
  if (operand.in_input_gradient()) {
    cost.input_gradient_flops += flops;
    cost.input_gradient_bytes += bytes;
  } else if (operand.in_weight_gradient()) {
    cost.weight_gradient_flops += flops;
    cost.weight_gradient_bytes += bytes;
  }
}

// `flops` and `bytes` are those of one product. Forward is one, and the gradient of each of the two
// that wants one is another, of I or of W.
inline Cost product_cost(const BoundOperator& op, double flops, double bytes) {
  Cost cost{flops, 0, 0, bytes, 0, 0};
  for (size_t i = 0; i < std::min<size_t>(2, op.inputs().size()); ++i)
    add_gradient_cost(op.inputs()[i], flops, bytes, cost);
  return cost;
}

// Adds what a bias costs that is added to each of `outputs` numbers, and whose gradient is their
// sum. `bytes` of the bias.
inline void add_bias_cost(const Operand& bias, double outputs, double bytes, Cost& cost) {
  cost.forward_flops += outputs;
  cost.forward_bytes += bytes;
  add_gradient_cost(bias, outputs, 4 * outputs + bytes, cost);
}

}  // namespace kerf::ops
