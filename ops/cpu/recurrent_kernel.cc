// RNN, GRU and LSTM on the CPU: products by oneDNN over several steps at once where nothing recurs,
// and one or two a step where it does.
#include <array>

#include "ops/cpu/column_sum.h"
#include "ops/cpu/recurrent_cell.h"
#include "ops/cpu/sequence.h"
#include "ops/kernel.h"
#include "ops/simd/simd.h"
#include "ops/workspace.h"

namespace kerf::ops::cpu {
namespace {

using Kind = Recurrent::Kind;

const float* data_of(std::span<const TensorView> views, int i) {
  return i < static_cast<int>(views.size()) ? views[static_cast<size_t>(i)].f32() : nullptr;
}

class RecurrentKernel final : public Kernel {
 public:
  explicit RecurrentKernel(const KernelSite& site) : op_(site.as<Recurrent>()) {
    const LocalSpecs most = local_specs(op_, site.iterations, site.largest, site.largest);
    largest_ = most.inputs[Recurrent::kX].shape[op_.samples_first() ? 0 : 1];
    const auto axis = static_cast<size_t>(op_.directions_axis());
    const int64_t extent = op_.space().axes[axis].extent;
    for (const Range& range : site.iterations.axes[axis].ranges(extent))
      for (int64_t d = range.begin; d < range.end; ++d) held_.push_back(d);
  }

  void forward(const Call& call) override {
    const Sequence q = sequence(call);
    if (q.rows() == 0) return;
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

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
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
      if (target.input == Recurrent::kX)
        x_gradient(call, q, back.gates, workspace, target.to.f32());
  }

  void weight_gradient(const Call& call, std::span<const GradientTarget> targets) override {
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

  static size_t workspace(const Recurrent& op, const LocalSpecs& local, int threads) {
    const Shape& x_shape = local.inputs[Recurrent::kX].shape;
    const Sequence q(op, x_shape, local.inputs[Recurrent::kW].shape[0],
                     x_shape[op.samples_first() ? 0 : 1]);
    if (q.rows() == 0) return 0;
    const size_t x = op.samples_first() ? piece_bytes<float>(q.rows() * q.inputs) : 0;
    const size_t state = piece_bytes<float>(q.samples * q.hidden);
    const size_t forward = x + piece_bytes<float>(q.gates()) +
                           piece_bytes<float>(q.steps_at_once() * q.samples * q.gates()) +
                           2 * state + piece_bytes<float>(q.samples * q.gates());
    const int64_t all = q.all_gates() + (op.linear_before_reset() ? q.all_gates() / q.blocks : 0);
    const size_t gates = op.handed_bytes(local) > 0 ? 0 : piece_bytes<float>(all);
    return std::max({forward, gates + 3 * state + x, x + piece_bytes<float>(q.rows() * q.hidden)}) +
           q.product_bytes(op, threads);
  }

 private:
  struct Scratch {
    float* bias = nullptr;
    float* gates = nullptr;
    float* h = nullptr;
    float* c = nullptr;
    float* more = nullptr;  // a GRU's r * h, or R h + b_R
    Workspace left;         // for products
  };
  // Of the gates' arguments (and, apart, of R h + b_R of n), of the states, of r * h.
  struct Back {
    float* gates = nullptr;
    float* apart = nullptr;
    float* dh = nullptr;
    float* dc = nullptr;
    float* reset = nullptr;
  };

  bool apart() const { return op_.linear_before_reset(); }
  bool is(Kind kind) const { return op_.kind() == kind; }

  Sequence sequence(const Call& call) const {
    return {op_, call.inputs[Recurrent::kX].shape, static_cast<int64_t>(held_.size()), largest_};
  }

  struct Directions {
    std::array<Direction, 2> all{};
    size_t count = 0;
    const Direction* begin() const { return all.data(); }
    const Direction* end() const { return all.data() + count; }
  };
  Directions directions(const Sequence& q) const {
    Directions result;
    for (const int64_t number : held_) {
      result.all[result.count] = {static_cast<int64_t>(result.count), number, op_.runs_back(number),
                                  q.steps};
      ++result.count;
    }
    return result;
  }

  // b of one direction: that of W first, then that of R.
  static const float* bias_of(const Call& call, const Sequence& q, int64_t d) {
    const float* b = data_of(call.inputs, Recurrent::kB);
    return b == nullptr ? nullptr : b + d * 2 * q.gates();
  }

  void run_forward(const Call& call, const Sequence& q, const Direction& direction, const float* x,
                   const Scratch& scratch) {
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
    if (is(Kind::kLstm)) copy_states(q, d, scratch.c, call.outputs[2].f32());
  }

  void run_step(const Call& call, const Sequence& q, const Direction& direction, int64_t t,
                float* gates, const Scratch& scratch) {
    const int64_t d = direction.index;
    const float* r = call.inputs[Recurrent::kR].f32() + d * q.gates() * q.hidden;
    if (is(Kind::kGru))
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
      if (kept != nullptr && is(Kind::kLstm)) std::copy_n(c, q.hidden, kept + s * q.hidden);
    });
  }

  // Steps that a sample has.
  static int64_t length_of(const Call& call, const Sequence& q, int64_t s) {
    if (call.inputs.size() <= Recurrent::kLengths) return q.steps;
    const TensorView& lengths = call.inputs[Recurrent::kLengths];
    if (lengths.data == nullptr) return q.steps;
    return lengths.dtype == DType::kInt64 ? lengths.i64()[s] : lengths.as<int32_t>()[s];
  }

  void advance(const Call& call, const Direction& direction, float* gates, float* c,
               float* h) const {
    const int64_t hidden = op_.hidden();
    const int64_t d = direction.number;
    const float* p = data_of(call.inputs, Recurrent::kP);
    if (p != nullptr) p += direction.index * 3 * hidden;
    if (is(Kind::kRnn))
      op_.usual() ? advance_rnn(op_.functions(d)[0].kind, hidden, gates, h)
                  : advance_rnn_by(op_, d, gates, h);
    else if (is(Kind::kGru))
      op_.usual() ? advance_gru(hidden, gates, h) : advance_gru_by(op_, d, gates, h);
    else
      op_.usual() ? advance_lstm(hidden, gates, c, h) : advance_lstm_by(op_, d, p, gates, c, h);
  }

  // A GRU's z, r and the argument of n.
  void open(const Call& call, const Sequence& q, const Direction& direction, int64_t t,
            const float* r, float* gates, const Scratch& scratch) {
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
      matmul_.run(q.recurrent_product(1), {scratch.more, false},
                  {r + 2 * q.hidden * q.hidden, true}, nullptr, gates + 2 * q.hidden, scratch.left);
  }

  static float* reserved_gates(const Call& call, const Sequence& q, int64_t d, int64_t t) {
    return reinterpret_cast<float*>(call.reserve.data()) + q.gate_row(d, t);
  }
  // What is kept beside the gates, behind all of them; null where nothing is reserved.
  float* kept_rows(const Call& call, const Sequence& q, int64_t d, int64_t t) const {
    if (call.reserve.empty() || !op_.keeps_more()) return nullptr;
    return reinterpret_cast<float*>(call.reserve.data()) + q.all_gates() + q.unit_row(d, t);
  }

  // What step `p` of a direction began with, of sample `s`; null: zeros.
  static const float* h_before(const Call& call, const Sequence& q, const Direction& direction,
                               int64_t p, int64_t s) {
    if (p > 0) return call.outputs[0].f32() + q.y_row(direction.step(p - 1), direction.index, s);
    const float* initial = data_of(call.inputs, Recurrent::kInitialH);
    return initial == nullptr ? nullptr : initial + q.state_row(direction.index, s);
  }
  const float* c_before(const Call& call, const Sequence& q, const Direction& direction, int64_t p,
                        int64_t s) const {
    if (p > 0) return kept_rows(call, q, direction.index, direction.step(p - 1)) + s * q.hidden;
    const float* initial = data_of(call.inputs, Recurrent::kInitialC);
    return initial == nullptr ? nullptr : initial + q.state_row(direction.index, s);
  }

  // Fills the gradients of the gates' arguments; dh and dc end as those of the initial states.
  void run_back(const Call& call, const Sequence& q, const Direction& direction, const Back& back,
                const Workspace& left) {
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
        if (is(Kind::kRnn))
          retreat_rnn(op_.functions(direction.number)[0].kind, gates, of_y, q.hidden, dh, row);
        else if (is(Kind::kGru))
          retreat_gru(gates, h_before(call, q, direction, p, s), of_y, q.hidden, dh, row);
        else
          retreat_lstm(gates, kept_rows(call, q, d, t) + s * q.hidden,
                       c_before(call, q, direction, p, s), of_y, q.hidden, dh,
                       back.dc + s * q.hidden, row);
      });
      if (is(Kind::kGru))
        close(call, q, direction, p, r, back, left);
      else
        matmul_.run(q.recurrent_gradient(q.blocks, false, false), {to, false}, {r, false}, nullptr,
                    back.dh, left);
    }
  }

  // A GRU's gradients behind those of z and n.
  void close(const Call& call, const Sequence& q, const Direction& direction, int64_t p,
             const float* r, const Back& back, const Workspace& left) {
    const int64_t d = direction.index;
    const int64_t t = direction.step(p);
    float* to = back.gates + q.gate_row(d, t);
    float* more = apart() ? back.apart + q.unit_row(d, t) : nullptr;
    const Matrix r_of_n{r + 2 * q.hidden * q.hidden, false};
    if (!apart())
      matmul_.run(q.recurrent_gradient(1, false, false), {to + 2 * q.hidden, false}, r_of_n,
                  nullptr, back.reset, left);
    for_samples(q, [&](int64_t s) {
      const float* gates = reserved_gates(call, q, d, t) + s * q.gates();
      float* row = to + s * q.gates();
      if (apart())
        retreat_linear(gates, kept_rows(call, q, d, t) + s * q.hidden, q.hidden, row,
                       more + s * q.hidden);
      else
        retreat_reset(gates, h_before(call, q, direction, p, s), back.reset + s * q.hidden,
                      q.hidden, back.dh + s * q.hidden, row);
    });
    if (apart())
      matmul_.run(q.recurrent_gradient(1, true, true), {more, false}, r_of_n, nullptr, back.dh,
                  left);
    matmul_.run(q.recurrent_gradient(2, true, false), {to, false}, {r, false}, nullptr, back.dh,
                left);
  }

  void x_gradient(const Call& call, const Sequence& q, const float* dg, Workspace& workspace,
                  float* dx) {
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

  // Of R h + b_R of n, where it is not that of n's argument.
  const float* handed_apart(const Call& call, const Sequence& q, int64_t d) const {
    return reinterpret_cast<const float*>(call.handed.data()) + q.all_gates() + q.unit_row(d, 0);
  }

  void bias_gradient(const Call& call, const Sequence& q, const Direction& direction,
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

  void recurrent_weights(const Call& call, const Sequence& q, const Direction& direction,
                         const float* dg, float* before, float* to, bool accumulate,
                         const Workspace& left) {
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
    const int64_t together = is(Kind::kGru) ? 2 : q.blocks;
    matmul_.run(q.weight_product(q.hidden, together, accumulate, false), {dg, true},
                {before, false}, nullptr, to, left);
    if (!is(Kind::kGru)) return;
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

  const Recurrent& op_;
  int64_t largest_ = 0;  // samples of the largest call
  std::vector<int64_t> held_;  // directions
  DnnlMatmul matmul_;
};

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
