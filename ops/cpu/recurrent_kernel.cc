#include "ops/cpu/recurrent_kernel.h"

#include <algorithm>

#include "ops/cpu/recurrent_cell.h"

namespace kerf::ops::cpu {

RecurrentKernel::RecurrentKernel(const KernelSite& site) : op_(site.as<Recurrent>()) {
  const LocalSpecs most = local_specs(op_, site.iterations, site.largest, site.largest);
  largest_ = Sequence::samples_of(op_, most.inputs[Recurrent::kX].shape);
  const auto axis = static_cast<size_t>(op_.directions_axis());
  const int64_t extent = op_.space().axes[axis].extent;
  for (const Range& range : site.iterations.axes[axis].ranges(extent))
    for (int64_t d = range.begin; d < range.end; ++d) held_.push_back(d);
}

void RecurrentKernel::forward(const Call& call) {
  const Sequence q = sequence(call);
  if (q.rows() == 0) return;
  check_lengths(call, q);
  Workspace workspace(call.workspace);
  const float* x = by_steps(q, call.inputs[Recurrent::kX].f32(), workspace);
  auto* bias = workspace.take<float>(q.gates());
  auto* gates = workspace.take<float>(q.steps_at_once() * q.samples * q.gates());
  auto* h = workspace.take<float>(q.samples * q.hidden);
  auto* c = workspace.take<float>(q.samples * q.hidden);
  auto* more = workspace.take<float>(q.samples * q.gates());
  for (const Direction& direction : directions(q))
    run_forward(call, q, direction, x, {bias, gates, h, c, more, workspace});
}

size_t RecurrentKernel::workspace(const Recurrent& op, const LocalSpecs& local, int threads) {
  const Shape& sequence = local.inputs[Recurrent::kX].shape;
  const Sequence q(op, sequence, local.inputs[Recurrent::kW].shape[0],
                   Sequence::samples_of(op, sequence));
  if (q.rows() == 0) return 0;
  const size_t x = op.samples_first() ? piece_bytes<float>(q.rows() * q.inputs) : 0;
  const size_t state = piece_bytes<float>(q.samples * q.hidden);
  const size_t forward = x + piece_bytes<float>(q.gates()) +
                         piece_bytes<float>(q.steps_at_once() * q.samples * q.gates()) + 2 * state +
                         piece_bytes<float>(q.samples * q.gates());
  const int64_t all = q.all_gates() + (op.linear_before_reset() ? q.all_gates() / q.blocks : 0);
  const size_t gates = op.handed_bytes(local) > 0 ? 0 : piece_bytes<float>(all);
  return std::max({forward, gates + 3 * state + x, x + piece_bytes<float>(q.rows() * q.hidden)}) +
         q.product_bytes(op, threads);
}

RecurrentKernel::Directions RecurrentKernel::directions(const Sequence& q) const {
  Directions result;
  for (const int64_t number : held_) {
    result.all[result.count] = {static_cast<int64_t>(result.count), number, op_.runs_back(number),
                                q.steps};
    ++result.count;
  }
  return result;
}

void RecurrentKernel::run_forward(const Call& call, const Sequence& q, const Direction& direction,
                                  const float* x, const Scratch& scratch) {
  const int64_t d = direction.index;
  load_states(q, d, data_of(call.inputs, Recurrent::kInitialH), scratch.h);
  load_states(q, d, data_of(call.inputs, Recurrent::kInitialC), scratch.c);
  const float* b = bias_of(call, q, d);
  for (int64_t j = 0; j < q.gates() && b != nullptr; ++j)
    scratch.bias[j] = b[j] + (apart() ? 0.0F : b[q.gates() + j]);
  const float* w = call.inputs[Recurrent::kW].f32() + d * q.gates() * q.inputs;
  auto* reserve = reinterpret_cast<float*>(call.reserve.data());
  for (int64_t first = 0; first < q.steps; first += q.steps_at_once()) {
    const int64_t last = std::min(first + q.steps_at_once(), q.steps);
    const int64_t lowest = std::min(direction.step(first), direction.step(last - 1));
    float* gates = reserve == nullptr ? scratch.gates : reserve + q.gate_row(d, lowest);
    matmul_.run(q.input_product(last - first), {x + lowest * q.samples * q.inputs, false},
                {w, true}, b == nullptr ? nullptr : scratch.bias, gates, scratch.left);
    for (int64_t p = first; p < last; ++p) {
      const int64_t t = direction.step(p);
      run_step(call, q, direction, t, gates + (t - lowest) * q.samples * q.gates(), scratch);
    }
  }
  copy_states(q, d, scratch.h, call.outputs[1].f32());
  if (is(Recurrent::Kind::kLstm)) copy_states(q, d, scratch.c, call.outputs[2].f32());
}

void RecurrentKernel::run_step(const Call& call, const Sequence& q, const Direction& direction,
                               int64_t t, float* gates, const Scratch& scratch) {
  const int64_t d = direction.index;
  const float* r = call.inputs[Recurrent::kR].f32() + d * q.gates() * q.hidden;
  if (is(Recurrent::Kind::kGru))
    open(call, q, direction, t, r, gates, scratch);
  else
    matmul_.run(q.recurrent_product(q.blocks), {scratch.h, false}, {r, true}, nullptr, gates,
                scratch.left);
  float* kept = kept_rows(call, q, d, t);
  for_samples(q, [&](int64_t s) {
    float* y = call.outputs[0].f32() + q.y_row(t, d, s);
    if (t >= length_of(call, q, s)) {
      std::fill_n(y, q.hidden, 0.0F);
      return;
    }
    float* h = scratch.h + s * q.hidden;
    float* c = scratch.c + s * q.hidden;
    advance(call, direction, gates + s * q.gates(), c, h);
    std::copy_n(h, q.hidden, y);
    if (kept != nullptr && is(Recurrent::Kind::kLstm))
      std::copy_n(c, q.hidden, kept + s * q.hidden);
  });
}

int64_t RecurrentKernel::length_of(const Call& call, const Sequence& q, int64_t s) {
  if (call.inputs.size() <= Recurrent::kLengths) return q.steps;
  const TensorView& lengths = call.inputs[Recurrent::kLengths];
  return lengths.data == nullptr ? q.steps : lengths.as<int32_t>()[s];
}

void RecurrentKernel::check_lengths(const Call& call, const Sequence& q) const {
  for (int64_t s = 0; s < q.samples; ++s)
    if (const int64_t length = length_of(call, q, s); length < 0 || length > q.steps)
      throw Error(ErrorCode::kUsage,
                  format("{}: sequence_lens of sample {} of those that its part looks at is {}, "
                         "but X has {} steps",
                         op_.name(), s, length, q.steps));
}

void RecurrentKernel::advance(const Call& call, const Direction& direction, float* gates, float* c,
                              float* h) const {
  const int64_t hidden = op_.hidden();
  const int64_t d = direction.number;
  const float* p = data_of(call.inputs, Recurrent::kP);
  if (p != nullptr) p += direction.index * 3 * hidden;
  if (is(Recurrent::Kind::kRnn))
    op_.usual() ? advance_rnn(op_.functions(d)[0].kind, hidden, gates, h)
                : advance_rnn_by(op_, d, gates, h);
  else if (is(Recurrent::Kind::kGru))
    op_.usual() ? advance_gru(hidden, gates, h) : advance_gru_by(op_, d, gates, h);
  else
    op_.usual() ? advance_lstm(hidden, gates, c, h) : advance_lstm_by(op_, d, p, gates, c, h);
}

void RecurrentKernel::open(const Call& call, const Sequence& q, const Direction& direction,
                           int64_t t, const float* r, float* gates, const Scratch& scratch) {
  const float* b = bias_of(call, q, direction.index);
  if (apart())
    matmul_.run(q.apart_product(), {scratch.h, false}, {r, true},
                b == nullptr ? nullptr : b + q.gates(), scratch.more, scratch.left);
  else
    matmul_.run(q.recurrent_product(2), {scratch.h, false}, {r, true}, nullptr, gates,
                scratch.left);
  float* kept = kept_rows(call, q, direction.index, t);
  for_samples(q, [&](int64_t s) {
    float* row = gates + s * q.gates();
    const float* h = scratch.h + s * q.hidden;
    float* more = scratch.more + s * (apart() ? q.gates() : q.hidden);
    if (!op_.usual())
      open_gates_by(op_, direction.number, row, apart() ? more : nullptr, h, more);
    else if (apart())
      open_gates_linear(q.hidden, row, more, kept == nullptr ? nullptr : kept + s * q.hidden);
    else
      open_gates(q.hidden, row, h, more);
  });
  if (!apart())
    matmul_.run(q.recurrent_product(1), {scratch.more, false}, {r + 2 * q.hidden * q.hidden, true},
                nullptr, gates + 2 * q.hidden, scratch.left);
}

float* RecurrentKernel::kept_rows(const Call& call, const Sequence& q, int64_t d, int64_t t) const {
  if (call.reserve.empty() || !op_.keeps_more()) return nullptr;
  return reinterpret_cast<float*>(call.reserve.data()) + q.all_gates() + q.unit_row(d, t);
}

namespace {

std::unique_ptr<Kernel> make_recurrent(const KernelSite& site) {
  return std::make_unique<RecurrentKernel>(site);
}

size_t recurrent_workspace(const BoundOperator& op, const LocalSpecs& local, int threads) {
  return RecurrentKernel::workspace(static_cast<const Recurrent&>(op), local, threads);
}

}  // namespace

KernelEntries register_recurrent() {
  return {{"RNN", make_recurrent, recurrent_workspace},
          {"GRU", make_recurrent, recurrent_workspace},
          {"LSTM", make_recurrent, recurrent_workspace}};
}

}  // namespace kerf::ops::cpu
