#include "ops/cpu/recurrent_cell.h"

#include <algorithm>

#include "ops/simd/exponential.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {

using simd::hyperbolic_tangent;
using simd::sigmoid;

// ---- RNN

KERF_CLONES void advance_rnn(GateFunction::Kind function, int64_t hidden, float* gate, float* h) {
  // NOLINTNEXTLINE(bugprone-branch-clone): loops under omp simd count as equal ones
  if (function == GateFunction::Kind::kTanh) {
#pragma omp simd
    for (int64_t j = 0; j < hidden; ++j) gate[j] = hyperbolic_tangent(gate[j]);
  } else if (function == GateFunction::Kind::kRelu) {
#pragma omp simd
    for (int64_t j = 0; j < hidden; ++j) gate[j] = gate[j] < 0 ? 0.0F : gate[j];
  } else {
#pragma omp simd
    for (int64_t j = 0; j < hidden; ++j) gate[j] = sigmoid(gate[j]);
  }
  std::copy_n(gate, hidden, h);
}

KERF_CLONES void retreat_rnn(GateFunction::Kind function, const float* gate, const float* dy,
                             int64_t hidden, const float* dh, float* to) {
  for (int64_t j = 0; j < hidden; ++j) to[j] = dh[j] + (dy == nullptr ? 0.0F : dy[j]);
  // NOLINTNEXTLINE(bugprone-branch-clone): loops under omp simd count as equal ones
  if (function == GateFunction::Kind::kTanh) {
#pragma omp simd
    for (int64_t j = 0; j < hidden; ++j) to[j] *= 1.0F - gate[j] * gate[j];
  } else if (function == GateFunction::Kind::kRelu) {
#pragma omp simd
    for (int64_t j = 0; j < hidden; ++j) to[j] = gate[j] > 0 ? to[j] : 0.0F;
  } else {
#pragma omp simd
    for (int64_t j = 0; j < hidden; ++j) to[j] *= gate[j] * (1.0F - gate[j]);
  }
}

// ---- GRU

KERF_CLONES void open_gates(int64_t hidden, float* gates, const float* h, float* reset) {
  const float* r = gates + hidden;
#pragma omp simd
  for (int64_t j = 0; j < 2 * hidden; ++j) gates[j] = sigmoid(gates[j]);
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) reset[j] = r[j] * h[j];
}

KERF_CLONES void open_gates_linear(int64_t hidden, float* gates, const float* more, float* kept) {
  const float* of_n = more + 2 * hidden;
#pragma omp simd
  for (int64_t j = 0; j < 2 * hidden; ++j) gates[j] = sigmoid(gates[j] + more[j]);
  const float* r = gates + hidden;
  float* n = gates + 2 * hidden;
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) n[j] += r[j] * of_n[j];
  if (kept != nullptr) std::copy_n(of_n, hidden, kept);
}

KERF_CLONES void advance_gru(int64_t hidden, float* gates, float* h) {
  const float* z = gates;
  float* n = gates + 2 * hidden;
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) n[j] = hyperbolic_tangent(n[j]);
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) h[j] = (1.0F - z[j]) * n[j] + z[j] * h[j];
}

KERF_CLONES void retreat_gru(const float* gates, const float* h_before, const float* dy,
                             int64_t hidden, float* dh, float* to) {
  const float* z = gates;
  const float* n = gates + 2 * hidden;
  float* to_n = to + 2 * hidden;
  for (int64_t j = 0; j < hidden; ++j) {
    const float of_h = dh[j] + (dy == nullptr ? 0.0F : dy[j]);
    const float before = h_before == nullptr ? 0.0F : h_before[j];
    to[j] = of_h * (before - n[j]) * (z[j] * (1.0F - z[j]));
    to_n[j] = of_h * (1.0F - z[j]) * (1.0F - n[j] * n[j]);
    dh[j] = of_h * z[j];
  }
}

KERF_CLONES void retreat_reset(const float* gates, const float* h_before, const float* of_reset,
                               int64_t hidden, float* dh, float* to) {
  const float* r = gates + hidden;
  float* to_r = to + hidden;
  for (int64_t j = 0; j < hidden; ++j) {
    const float before = h_before == nullptr ? 0.0F : h_before[j];
    to_r[j] = of_reset[j] * before * (r[j] * (1.0F - r[j]));
    dh[j] += of_reset[j] * r[j];
  }
}

KERF_CLONES void retreat_linear(const float* gates, const float* kept, int64_t hidden, float* to,
                                float* more) {
  const float* r = gates + hidden;
  float* to_r = to + hidden;
  const float* of_n = to + 2 * hidden;
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) {
    to_r[j] = of_n[j] * kept[j] * (r[j] * (1.0F - r[j]));
    more[j] = of_n[j] * r[j];
  }
}

// ---- LSTM

KERF_CLONES void advance_lstm(int64_t hidden, float* gates, float* c, float* h) {
  float* g = gates + 3 * hidden;
  const float* i = gates;
  const float* o = gates + hidden;
  const float* f = gates + 2 * hidden;
#pragma omp simd
  for (int64_t j = 0; j < 3 * hidden; ++j) gates[j] = sigmoid(gates[j]);
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) g[j] = hyperbolic_tangent(g[j]);
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) c[j] = f[j] * c[j] + i[j] * g[j];
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) h[j] = o[j] * hyperbolic_tangent(c[j]);
}

KERF_CLONES void retreat_lstm(const float* gates, const float* c, const float* c_before,
                              const float* dy, int64_t hidden, const float* dh, float* dc,
                              float* to) {
  const float* i = gates;
  const float* o = gates + hidden;
  const float* f = gates + 2 * hidden;
  const float* g = gates + 3 * hidden;
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) {
    const float tanh_c = hyperbolic_tangent(c[j]);
    const float of_h = dh[j] + (dy == nullptr ? 0.0F : dy[j]);
    const float of_c = dc[j] + of_h * o[j] * (1.0F - tanh_c * tanh_c);
    to[j] = of_c * g[j] * (i[j] * (1.0F - i[j]));
    to[hidden + j] = of_h * tanh_c * (o[j] * (1.0F - o[j]));
    to[2 * hidden + j] = of_c * (c_before == nullptr ? 0.0F : c_before[j]) * (f[j] * (1.0F - f[j]));
    to[3 * hidden + j] = of_c * i[j] * (1.0F - g[j] * g[j]);
    dc[j] = of_c * f[j];
  }
}

// ---- any functions

namespace {

float clipped(const Recurrent& op, float x) {
  return op.clip() > 0 ? std::clamp(x, -op.clip(), op.clip()) : x;
}

}  // namespace

void advance_rnn_by(const Recurrent& op, int64_t direction, float* gates, float* h) {
  const GateFunction& f = op.functions(direction)[0];
  for (int64_t j = 0; j < op.hidden(); ++j) h[j] = gates[j] = f(clipped(op, gates[j]));
}

void open_gates_by(const Recurrent& op, int64_t direction, float* gates, const float* more,
                   const float* h, float* reset) {
  const GateFunction& f = op.functions(direction)[0];
  const int64_t hidden = op.hidden();
  for (int64_t j = 0; j < 2 * hidden; ++j)
    gates[j] = f(clipped(op, gates[j] + (more == nullptr ? 0.0F : more[j])));
  for (int64_t j = 0; j < hidden; ++j)
    if (more == nullptr)
      reset[j] = gates[hidden + j] * h[j];
    else
      gates[2 * hidden + j] += gates[hidden + j] * more[2 * hidden + j];
}

void advance_gru_by(const Recurrent& op, int64_t direction, float* gates, float* h) {
  const GateFunction& g = op.functions(direction)[1];
  const int64_t hidden = op.hidden();
  for (int64_t j = 0; j < hidden; ++j) {
    const float n = g(clipped(op, gates[2 * hidden + j]));
    h[j] = (1.0F - gates[j]) * n + gates[j] * h[j];
  }
}

void advance_lstm_by(const Recurrent& op, int64_t direction, const float* p, float* gates, float* c,
                     float* h) {
  const auto& [f, g, last] = op.functions(direction);
  const int64_t hidden = op.hidden();
  const auto peep = [&](int64_t block, int64_t j) {
    return p == nullptr ? 0.0F : p[block * hidden + j];
  };
  for (int64_t j = 0; j < hidden; ++j) {
    const float i = f(clipped(op, gates[j] + peep(0, j) * c[j]));
    const float forget =
        op.input_forget() ? 1.0F - i : f(clipped(op, gates[2 * hidden + j] + peep(2, j) * c[j]));
    c[j] = forget * c[j] + i * g(clipped(op, gates[3 * hidden + j]));
    const float o = f(clipped(op, gates[hidden + j] + peep(1, j) * c[j]));
    h[j] = o * last(c[j]);
  }
}

}  // namespace kerf::ops::cpu
