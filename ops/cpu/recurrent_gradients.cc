// The gradients of RecurrentKernel: steps back, then the products over all of them at once.
#include <algorithm>

#include "ops/cpu/column_sum.h"
#include "ops/cpu/recurrent_cell.h"
#include "ops/cpu/recurrent_kernel.h"

namespace kerf::ops::cpu {

void RecurrentKernel::input_gradient(const Call& call, std::span<const GradientTarget> targets) {
  const Sequence q = sequence(call);
  if (q.rows() == 0) return;
  Workspace workspace(call.workspace);
  Back back;
  const int64_t all = q.all_gates() + (apart() ? q.all_gates() / q.blocks : 0);
  back.gates = !call.handed.empty() ? reinterpret_cast<float*>(call.handed.data())
                                    : workspace.take<float>(all);
  back.apart = apart() ? back.gates + q.all_gates() : nullptr;
  back.dh = workspace.take<float>(q.samples * q.hidden);
  back.dc = workspace.take<float>(q.samples * q.hidden);
  back.reset = workspace.take<float>(q.samples * q.hidden);
  for (const Direction& direction : directions(q)) {
    run_back(call, q, direction, back, workspace);
    for (const GradientTarget& target : targets)
      if (target.input != Recurrent::kX)
        copy_states(q, direction.index, target.input == Recurrent::kInitialH ? back.dh : back.dc,
                    target.to.f32());
  }
  for (const GradientTarget& target : targets)
    if (target.input == Recurrent::kX) x_gradient(call, q, back.gates, workspace, target.to.f32());
}

void RecurrentKernel::weight_gradient(const Call& call, std::span<const GradientTarget> targets) {
  const Sequence q = sequence(call);
  Workspace workspace(call.workspace);
  const bool any = q.rows() > 0;
  const float* x = any ? by_steps(q, call.inputs[Recurrent::kX].f32(), workspace) : nullptr;
  float* before = any ? workspace.take<float>(q.rows() * q.hidden) : nullptr;
  for (const GradientTarget& target : targets) {
    if (!any && !target.accumulate) std::fill_n(target.to.f32(), target.to.elements(), 0.0F);
    if (!any) continue;
    const int64_t size = target.to.elements() / q.directions;
    for (const Direction& direction : directions(q)) {
      const float* dg =
          reinterpret_cast<const float*>(call.handed.data()) + q.gate_row(direction.index, 0);
      float* to = target.to.f32() + direction.index * size;
      if (target.input == Recurrent::kB)
        bias_gradient(call, q, direction, dg, to, target.accumulate);
      else if (target.input == Recurrent::kR)
        recurrent_weights(call, q, direction, dg, before, to, target.accumulate, workspace);
      else
        matmul_.run(q.weight_product(q.inputs, q.blocks, target.accumulate, false), {dg, true},
                    {x, false}, nullptr, to, workspace);
    }
  }
}

const float* RecurrentKernel::h_before(const Call& call, const Sequence& q,
                                       const Direction& direction, int64_t p, int64_t s) {
  if (p > 0) return call.outputs[0].f32() + q.y_row(direction.step(p - 1), direction.index, s);
  const float* initial = data_of(call.inputs, Recurrent::kInitialH);
  return initial == nullptr ? nullptr : initial + q.state_row(direction.index, s);
}

const float* RecurrentKernel::c_before(const Call& call, const Sequence& q,
                                       const Direction& direction, int64_t p, int64_t s) const {
  if (p > 0) return kept_rows(call, q, direction.index, direction.step(p - 1)) + s * q.hidden;
  const float* initial = data_of(call.inputs, Recurrent::kInitialC);
  return initial == nullptr ? nullptr : initial + q.state_row(direction.index, s);
}

void RecurrentKernel::run_back(const Call& call, const Sequence& q, const Direction& direction,
                               const Back& back, const Workspace& left) {
  const int64_t d = direction.index;
  load_states(q, d, data_of(call.output_gradients, 1), back.dh);
  load_states(q, d, data_of(call.output_gradients, 2), back.dc);
  const float* dy = data_of(call.output_gradients, 0);
  const float* r = call.inputs[Recurrent::kR].f32() + d * q.gates() * q.hidden;
  for (int64_t p = q.steps - 1; p >= 0; --p) {
    const int64_t t = direction.step(p);
    float* to = back.gates + q.gate_row(d, t);
    for_samples(q, [&](int64_t s) {
      const float* gates = reserved_gates(call, q, d, t) + s * q.gates();
      const float* of_y = dy == nullptr ? nullptr : dy + q.y_row(t, d, s);
      float* dh = back.dh + s * q.hidden;
      float* row = to + s * q.gates();
      if (is(Recurrent::Kind::kRnn))
        retreat_rnn(op_.functions(direction.number)[0].kind, gates, of_y, q.hidden, dh, row);
      else if (is(Recurrent::Kind::kGru))
        retreat_gru(gates, h_before(call, q, direction, p, s), of_y, q.hidden, dh, row);
      else
        retreat_lstm(gates, kept_rows(call, q, d, t) + s * q.hidden,
                     c_before(call, q, direction, p, s), of_y, q.hidden, dh, back.dc + s * q.hidden,
                     row);
    });
    if (is(Recurrent::Kind::kGru))
      close(call, q, direction, p, r, back, left);
    else
      matmul_.run(q.recurrent_gradient(q.blocks, false, false), {to, false}, {r, false}, nullptr,
                  back.dh, left);
  }
}

void RecurrentKernel::close(const Call& call, const Sequence& q, const Direction& direction,
                            int64_t p, const float* r, const Back& back, const Workspace& left) {
  const int64_t d = direction.index;
  const int64_t t = direction.step(p);
  float* to = back.gates + q.gate_row(d, t);
  float* more = apart() ? back.apart + q.unit_row(d, t) : nullptr;
  const Matrix r_of_n{r + 2 * q.hidden * q.hidden, false};
  if (!apart())
    matmul_.run(q.recurrent_gradient(1, false, false), {to + 2 * q.hidden, false}, r_of_n, nullptr,
                back.reset, left);
  for_samples(q, [&](int64_t s) {
    const float* gates = reserved_gates(call, q, d, t) + s * q.gates();
    float* row = to + s * q.gates();
    if (apart())
      retreat_linear(gates, kept_rows(call, q, d, t) + s * q.hidden, q.hidden, row,
                     more + s * q.hidden);
    else
      retreat_reset(gates, h_before(call, q, direction, p, s), back.reset + s * q.hidden, q.hidden,
                    back.dh + s * q.hidden, row);
  });
  if (apart())
    matmul_.run(q.recurrent_gradient(1, true, true), {more, false}, r_of_n, nullptr, back.dh, left);
  matmul_.run(q.recurrent_gradient(2, true, false), {to, false}, {r, false}, nullptr, back.dh,
              left);
}

void RecurrentKernel::x_gradient(const Call& call, const Sequence& q, const float* dg,
                                 Workspace& workspace, float* dx) {
  float* by_step = q.samples_first ? workspace.take<float>(q.rows() * q.inputs) : dx;
  for (int64_t d = 0; d < q.directions; ++d)
    matmul_.run(q.x_product(d > 0), {dg + q.gate_row(d, 0), false},
                {call.inputs[Recurrent::kW].f32() + d * q.gates() * q.inputs, false}, nullptr,
                by_step, workspace);
  if (!q.samples_first) return;
  for (int64_t t = 0; t < q.steps; ++t)
    for (int64_t s = 0; s < q.samples; ++s)
      std::copy_n(by_step + (t * q.samples + s) * q.inputs, q.inputs, dx + q.x_row(t, s));
}

void RecurrentKernel::bias_gradient(const Call& call, const Sequence& q, const Direction& direction,
                                    const float* dg, float* to, bool accumulate) const {
  add_columns(dg, q.rows(), q.gates(), 1, to, accumulate);
  float* of_r = to + q.gates();
  if (!apart()) return add_columns(dg, q.rows(), q.gates(), 1, of_r, accumulate);
  add_columns(handed_apart(call, q, direction.index), q.rows(), q.hidden, 1, of_r + 2 * q.hidden,
              accumulate);
  for (int64_t j = 0; j < 2 * q.hidden; ++j) {
    float sum = 0;
    for (int64_t i = 0; i < q.rows(); ++i) sum += dg[i * q.gates() + j];
    of_r[j] = (accumulate ? of_r[j] : 0.0F) + sum;
  }
}

void RecurrentKernel::recurrent_weights(const Call& call, const Sequence& q,
                                        const Direction& direction, const float* dg, float* before,
                                        float* to, bool accumulate, const Workspace& left) {
  const int64_t d = direction.index;
  for (int64_t p = 0; p < q.steps; ++p)
    for (int64_t s = 0; s < q.samples; ++s) {
      const float* h = h_before(call, q, direction, p, s);
      float* row = before + (direction.step(p) * q.samples + s) * q.hidden;
      if (h == nullptr)
        std::fill_n(row, q.hidden, 0.0F);
      else
        std::copy_n(h, q.hidden, row);
    }
  const int64_t together = is(Recurrent::Kind::kGru) ? 2 : q.blocks;
  matmul_.run(q.weight_product(q.hidden, together, accumulate, false), {dg, true}, {before, false},
              nullptr, to, left);
  if (!is(Recurrent::Kind::kGru)) return;
  float* to_n = to + 2 * q.hidden * q.hidden;
  if (apart()) {
    matmul_.run(q.weight_product(q.hidden, 1, accumulate, true), {handed_apart(call, q, d), true},
                {before, false}, nullptr, to_n, left);
    return;
  }
  const float* r = reserved_gates(call, q, d, 0) + q.hidden;
  for (int64_t i = 0; i < q.rows(); ++i)
    for (int64_t j = 0; j < q.hidden; ++j) before[i * q.hidden + j] *= r[i * q.gates() + j];
  matmul_.run(q.weight_product(q.hidden, 1, accumulate, false), {dg + 2 * q.hidden, true},
              {before, false}, nullptr, to_n, left);
}

}  // namespace kerf::ops::cpu
