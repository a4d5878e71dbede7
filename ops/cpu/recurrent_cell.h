// One step of a recurrence for one sample, and its gradient: what is not a product. Compiled for
// each instruction set. Pure functions.
//
//   RNN    h' = f(a)
//   GRU    h' = (1 - z) * n + z * h
//   LSTM   c' = f * c + i * g    h' = o * tanh(c')
#pragma once

#include <cstdint>

#include "ops/operators/recurrent.h"

namespace kerf::ops::cpu {

// ---- RNN, of Tanh, Sigmoid or Relu

void advance_rnn(GateFunction::Kind function, int64_t hidden, float* gate, float* h);
// From the gate and dh to the gradient of its argument. dy may be null, which is 0.
void retreat_rnn(GateFunction::Kind function, const float* gate, const float* dy, int64_t hidden,
                 const float* dh, float* to);

// ---- GRU: the blocks z, r, n of a row

// From the arguments of z and r to them, and r * h.
void open_gates(int64_t hidden, float* gates, const float* h, float* reset);
// The same with linear_before_reset: `more` is R h + b_R of all three blocks; that of n is kept.
void open_gates_linear(int64_t hidden, float* gates, const float* more, float* kept);
// From the argument of n to n, and to the next step's h.
void advance_gru(int64_t hidden, float* gates, float* h);

// dh gets dy added, and becomes what goes to h past the products; to: the gradients of the
// arguments of z and n. dy and h_before may be null, which is 0.
void retreat_gru(const float* gates, const float* h_before, const float* dy, int64_t hidden,
                 float* dh, float* to);
// The gradient of r's argument from that of r * h (which is added to dh times r), or with
// linear_before_reset from R h + b_R of n, whose own gradient goes to `more`.
void retreat_reset(const float* gates, const float* h_before, const float* of_reset, int64_t hidden,
                   float* dh, float* to);
void retreat_linear(const float* gates, const float* kept, int64_t hidden, float* to, float* more);

// ---- LSTM: the blocks i, o, f, g of a row

// From the gates' arguments to the gates, and the cells and hidden units of the next step.
void advance_lstm(int64_t hidden, float* gates, float* c, float* h);
// From the gradients of h and c to those of the gates' arguments and of the step before's c. dy and
// c_before may be null, which is 0.
void retreat_lstm(const float* gates, const float* c, const float* c_before, const float* dy,
                  int64_t hidden, const float* dh, float* dc, float* to);

// ---- any functions, clip, peepholes (P of one direction, may be null): answers only

void advance_rnn_by(const Recurrent& op, int64_t direction, float* gates, float* h);
// In two parts, as above; `more` is null without linear_before_reset.
void open_gates_by(const Recurrent& op, int64_t direction, float* gates, const float* more,
                   const float* h, float* reset);
void advance_gru_by(const Recurrent& op, int64_t direction, float* gates, float* h);
void advance_lstm_by(const Recurrent& op, int64_t direction, const float* p, float* gates, float* c,
                     float* h);

}  // namespace kerf::ops::cpu
