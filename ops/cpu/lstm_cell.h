// One step of an LSTM for one sample, and its gradient: what is not a product. Pure functions.
//
//   c' = f * c + i * g    h' = o * tanh(c')    i, o, f = sigmoid, g = tanh of the gates' arguments
#pragma once

#include <cstdint>

namespace kerf::ops::cpu {

// The four gates' blocks of one row, of `hidden` numbers each.
struct LstmGates {
  float* i;
  float* o;
  float* f;
  float* g;
  LstmGates(float* row, int64_t hidden)
      : i(row), o(row + hidden), f(row + 2 * hidden), g(row + 3 * hidden) {}
};

// From the gates' arguments to the gates, and the cells and hidden units of the next step.
void advance(const LstmGates& gates, int64_t hidden, float* c, float* h);
// From the gradients of h and c to those of the gates' arguments and of the step before's c. dy and
// c_before may be null, which is 0.
void retreat(const LstmGates& gates, const float* c, const float* c_before, const float* dy,
             int64_t hidden, const float* dh, float* dc, const LstmGates& to);

}  // namespace kerf::ops::cpu
