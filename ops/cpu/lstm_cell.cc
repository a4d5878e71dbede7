#include "ops/cpu/lstm_cell.h"

#include <cmath>

namespace kerf::ops::cpu {
namespace {

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

}  // namespace

void advance(const LstmGates& gates, int64_t hidden, float* c, float* h) {
  for (int64_t j = 0; j < hidden; ++j) {
    gates.i[j] = sigmoid(gates.i[j]);
    gates.o[j] = sigmoid(gates.o[j]);
    gates.f[j] = sigmoid(gates.f[j]);
    gates.g[j] = std::tanh(gates.g[j]);
    c[j] = gates.f[j] * c[j] + gates.i[j] * gates.g[j];
    h[j] = gates.o[j] * std::tanh(c[j]);
  }
}

void retreat(const LstmGates& gates, const float* c, const float* c_before, const float* dy,
             int64_t hidden, const float* dh, float* dc, const LstmGates& to) {
  for (int64_t j = 0; j < hidden; ++j) {
    const float i = gates.i[j];
    const float o = gates.o[j];
    const float f = gates.f[j];
    const float g = gates.g[j];
    const float tanh_c = std::tanh(c[j]);
    const float of_h = dh[j] + (dy == nullptr ? 0.0F : dy[j]);
    const float of_c = dc[j] + of_h * o * (1 - tanh_c * tanh_c);
    to.i[j] = of_c * g * (i * (1 - i));
    to.o[j] = of_h * tanh_c * (o * (1 - o));
    to.f[j] = of_c * (c_before == nullptr ? 0.0F : c_before[j]) * (f * (1 - f));
    to.g[j] = of_c * i * (1 - g * g);
    dc[j] = of_c * f;
  }
}

}  // namespace kerf::ops::cpu
