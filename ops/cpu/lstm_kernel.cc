// LSTM on the CPU: products by oneDNN over several steps at once where nothing recurs, and one a
// step where it does.
#include <algorithm>
#include <array>

#include "ops/cpu/column_sum.h"
#include "ops/cpu/dnnl_matmul.h"
#include "ops/cpu/lstm_cell.h"
#include "ops/kernel.h"
#include "ops/operators/lstm.h"
#include "ops/simd/simd.h"
#include "ops/workspace.h"

namespace kerf::ops::cpu {
namespace {

enum Input : size_t { kX, kW, kR, kB, kLengths, kInitialH, kInitialC };

// Extents of one call, and where rows lie in its operands.
struct Sequence {
  int64_t steps = 0;
  int64_t samples = 0;
  int64_t inputs = 0;
  int64_t hidden = 0;
  int64_t directions = 0;
  bool samples_first = false;

  Sequence(const Lstm& op, const Shape& x, int64_t held_directions)
      : steps(x[op.samples_first() ? 1 : 0]),
        samples(x[op.samples_first() ? 0 : 1]),
        inputs(x[2]),
        hidden(op.hidden()),
        directions(held_directions),
        samples_first(op.samples_first()) {}

  int64_t rows() const { return steps * samples; }
  int64_t gates() const { return 4 * hidden; }
  int64_t x_row(int64_t t, int64_t s) const {
    return (samples_first ? s * steps + t : t * samples + s) * inputs;
  }
  int64_t y_row(int64_t t, int64_t d, int64_t s) const {
    return (samples_first ? (s * steps + t) * directions + d : (t * directions + d) * samples + s) *
           hidden;
  }
  int64_t state_row(int64_t d, int64_t s) const {
    return (samples_first ? s * directions + d : d * samples + s) * hidden;
  }
  // Steps whose inputs are multiplied at once: enough rows to make it worth while.
  int64_t steps_at_once() const {
    constexpr int64_t kRows = 64;
    return std::clamp<int64_t>((kRows + samples - 1) / std::max<int64_t>(samples, 1), 1, steps);
  }
};

// ---- the products

using Product = DnnlMatmul::Problem;

Product input_product(const Sequence& q, int64_t steps) {
  return {.m = steps * q.samples, .n = q.gates(), .k = q.inputs};
}
Product recurrent_product(const Sequence& q) {
  return {.m = q.samples, .n = q.gates(), .k = q.hidden, .accumulate = true};
}
Product recurrent_gradient(const Sequence& q) {
  return {.m = q.samples, .n = q.hidden, .k = q.gates()};
}
Product input_gradient_product(const Sequence& q, bool accumulate) {
  return {.m = q.rows(), .n = q.inputs, .k = q.gates(), .accumulate = accumulate};
}
Product weight_product(const Sequence& q, bool recurrent, bool accumulate) {
  return {.m = q.gates(),
          .n = recurrent ? q.hidden : q.inputs,
          .k = q.rows(),
          .accumulate = accumulate};
}

// Of the one that takes most.
size_t product_bytes(const Lstm& op, const Sequence& q, int threads) {
  size_t most = 0;
  const auto add = [&](const Product& product, bool transposed_a, bool transposed_b, bool bias) {
    most = std::max(
        most, DnnlMatmul::workspace_bytes(product, transposed_a, transposed_b, bias, threads));
  };
  const int64_t last = q.steps % q.steps_at_once();
  for (const int64_t steps : {q.steps_at_once(), last == 0 ? q.steps_at_once() : last})
    add(input_product(q, steps), false, true, op.has(static_cast<int>(kB)));
  add(recurrent_product(q), false, true, false);
  add(recurrent_gradient(q), false, false, false);
  for (const bool accumulate : {false, true}) {
    add(input_gradient_product(q, accumulate), false, false, false);
    for (const bool recurrent : {false, true})
      add(weight_product(q, recurrent, accumulate), true, false, false);
  }
  return most;
}

// One direction of a call: the order of its steps.
struct Direction {
  int64_t index = 0;  // among those held here
  bool back = false;
  int64_t steps = 0;
  int64_t step(int64_t processed) const { return back ? steps - 1 - processed : processed; }
};

const float* data_of(std::span<const TensorView> views, size_t i) {
  return i < views.size() ? views[i].f32() : nullptr;
}

class LstmKernel final : public Kernel {
 public:
  explicit LstmKernel(const KernelSite& site) : op_(site.as<Lstm>()) {
    const auto axis = static_cast<size_t>(op_.directions_axis());
    const int64_t extent = op_.space().axes[axis].extent;
    for (const Range& range : site.iterations.axes[axis].ranges(extent))
      for (int64_t d = range.begin; d < range.end; ++d) back_.push_back(op_.runs_back(d));
  }

  void forward(const Call& call) override {
    const Sequence q = sequence(call);
    if (q.rows() == 0) return;
    Workspace workspace(call.workspace);
    const float* x = by_steps(q, call.inputs[kX].f32(), workspace);
    auto* bias = workspace.take<float>(q.gates());
    auto* gates = workspace.take<float>(q.steps_at_once() * q.samples * q.gates());
    auto* h = workspace.take<float>(q.samples * q.hidden);
    auto* c = workspace.take<float>(q.samples * q.hidden);
    for (const Direction& direction : directions(q))
      run_forward(call, q, direction, x, {bias, gates, h, c, workspace});
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const Sequence q = sequence(call);
    if (q.rows() == 0) return;
    Workspace workspace(call.workspace);
    const int64_t all = q.directions * q.rows() * q.gates();
    auto* dg = !call.handed.empty() ? reinterpret_cast<float*>(call.handed.data())
                                    : workspace.take<float>(all);
    auto* dh = workspace.take<float>(q.samples * q.hidden);
    auto* dc = workspace.take<float>(q.samples * q.hidden);
    for (const Direction& direction : directions(q)) {
      run_back(call, q, direction, dg + direction.index * q.rows() * q.gates(), dh, dc, workspace);
      for (const GradientTarget& target : targets)
        if (target.input != static_cast<int>(kX))
          copy_states(q, direction.index, target.input == static_cast<int>(kInitialH) ? dh : dc,
                      target.to.f32());
    }
    for (const GradientTarget& target : targets)
      if (target.input == static_cast<int>(kX)) x_gradient(call, q, dg, workspace, target.to.f32());
  }

  void weight_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const Sequence q = sequence(call);
    Workspace workspace(call.workspace);
    const bool any = q.rows() > 0;
    const float* x = any ? by_steps(q, call.inputs[kX].f32(), workspace) : nullptr;
    float* before = any ? workspace.take<float>(q.rows() * q.hidden) : nullptr;
    for (const GradientTarget& target : targets) {
      if (!any && !target.accumulate) std::fill_n(target.to.f32(), target.to.elements(), 0.0F);
      if (!any) continue;
      const int64_t size = target.to.elements() / q.directions;
      for (const Direction& direction : directions(q)) {
        const float* dg = reinterpret_cast<const float*>(call.handed.data()) +
                          direction.index * q.rows() * q.gates();
        float* to = target.to.f32() + direction.index * size;
        if (target.input == static_cast<int>(kB)) {
          add_columns(dg, q.rows(), q.gates(), 1, to, target.accumulate);
          add_columns(dg, q.rows(), q.gates(), 1, to + q.gates(), target.accumulate);
          continue;
        }
        const bool recurrent = target.input == static_cast<int>(kR);
        if (recurrent) hidden_before(call, q, direction, before);
        matmul_.run(weight_product(q, recurrent, target.accumulate), {dg, true},
                    {recurrent ? before : x, false}, nullptr, to, workspace);
      }
    }
  }

  static size_t workspace(const Lstm& op, const LocalSpecs& local, int threads) {
    const Sequence q(op, local.inputs[kX].shape, local.inputs[kW].shape[0]);
    if (q.rows() == 0) return 0;
    const size_t x = op.samples_first() ? piece_bytes<float>(q.rows() * q.inputs) : 0;
    const size_t states = 2 * piece_bytes<float>(q.samples * q.hidden);
    const size_t forward = x + piece_bytes<float>(q.gates()) +
                           piece_bytes<float>(q.steps_at_once() * q.samples * q.gates()) + states;
    const size_t gates =
        op.handed_bytes(local) > 0 ? 0 : piece_bytes<float>(q.directions * q.rows() * q.gates());
    return std::max({forward, gates + states + x, x + piece_bytes<float>(q.rows() * q.hidden)}) +
           product_bytes(op, q, threads);
  }

 private:
  struct Scratch {
    float* bias = nullptr;
    float* gates = nullptr;
    float* h = nullptr;
    float* c = nullptr;
    Workspace left;  // for products
  };

  Sequence sequence(const Call& call) const {
    return {op_, call.inputs[kX].shape, static_cast<int64_t>(back_.size())};
  }

  struct Directions {
    std::array<Direction, 2> all{};
    size_t count = 0;
    const Direction* begin() const { return all.data(); }
    const Direction* end() const { return all.data() + count; }
  };
  Directions directions(const Sequence& q) const {
    Directions result;
    for (const bool back : back_) {
      result.all[result.count] = {static_cast<int64_t>(result.count), back, q.steps};
      ++result.count;
    }
    return result;
  }

  // X with the samples of a step together.
  static const float* by_steps(const Sequence& q, const float* x, Workspace& workspace) {
    if (!q.samples_first) return x;
    auto* copy = workspace.take<float>(q.rows() * q.inputs);
    for (int64_t t = 0; t < q.steps; ++t)
      for (int64_t s = 0; s < q.samples; ++s)
        std::copy_n(x + q.x_row(t, s), q.inputs, copy + (t * q.samples + s) * q.inputs);
    return copy;
  }

  static void load_states(const Sequence& q, int64_t d, const float* from, float* to) {
    if (from == nullptr) std::fill_n(to, q.samples * q.hidden, 0.0F);
    for (int64_t s = 0; s < q.samples && from != nullptr; ++s)
      std::copy_n(from + q.state_row(d, s), q.hidden, to + s * q.hidden);
  }

  static void copy_states(const Sequence& q, int64_t d, const float* from, float* to) {
    for (int64_t s = 0; s < q.samples && to != nullptr; ++s)
      std::copy_n(from + s * q.hidden, q.hidden, to + q.state_row(d, s));
  }

  // Calls row(sample) on as many threads as there are.
  template <class Row>
  static void for_samples(const Sequence& q, const Row& row) {
    simd::parallel_pieces(q.samples, 1 + 2048 / q.hidden, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) row(s);
    });
  }

  void run_forward(const Call& call, const Sequence& q, const Direction& direction, const float* x,
                   const Scratch& scratch) {
    const int64_t d = direction.index;
    load_states(q, d, data_of(call.inputs, kInitialH), scratch.h);
    load_states(q, d, data_of(call.inputs, kInitialC), scratch.c);
    const float* b = data_of(call.inputs, kB);
    for (int64_t j = 0; j < q.gates() && b != nullptr; ++j)
      scratch.bias[j] = b[d * 2 * q.gates() + j] + b[d * 2 * q.gates() + q.gates() + j];
    const float* w = call.inputs[kW].f32() + d * q.gates() * q.inputs;
    auto* reserve = reinterpret_cast<float*>(call.reserve.data());
    for (int64_t first = 0; first < q.steps; first += q.steps_at_once()) {
      const int64_t last = std::min(first + q.steps_at_once(), q.steps);
      const int64_t lowest = std::min(direction.step(first), direction.step(last - 1));
      float* gates = reserve == nullptr ? scratch.gates
                                        : reserve + (d * q.rows() + lowest * q.samples) * q.gates();
      matmul_.run(input_product(q, last - first), {x + lowest * q.samples * q.inputs, false},
                  {w, true}, b == nullptr ? nullptr : scratch.bias, gates, scratch.left);
      for (int64_t p = first; p < last; ++p) {
        const int64_t t = direction.step(p);
        run_step(call, q, d, t, gates + (t - lowest) * q.samples * q.gates(), scratch);
      }
    }
    copy_states(q, d, scratch.h, call.outputs[1].f32());
    copy_states(q, d, scratch.c, call.outputs[2].f32());
  }

  void run_step(const Call& call, const Sequence& q, int64_t d, int64_t t, float* gates,
                const Scratch& scratch) {
    const float* r = call.inputs[kR].f32() + d * q.gates() * q.hidden;
    matmul_.run(recurrent_product(q), {scratch.h, false}, {r, true}, nullptr, gates, scratch.left);
    float* cells = reserved_cells(call, q, d, t);
    for_samples(q, [&](int64_t s) {
      float* h = scratch.h + s * q.hidden;
      float* c = scratch.c + s * q.hidden;
      advance(LstmGates(gates + s * q.gates(), q.hidden), q.hidden, c, h);
      std::copy_n(h, q.hidden, call.outputs[0].f32() + q.y_row(t, d, s));
      if (cells != nullptr) std::copy_n(c, q.hidden, cells + s * q.hidden);
    });
  }

  static float* reserved_gates(const Call& call, const Sequence& q, int64_t d, int64_t t) {
    return reinterpret_cast<float*>(call.reserve.data()) +
           (d * q.rows() + t * q.samples) * q.gates();
  }
  // Behind all gates; null where nothing is reserved.
  static float* reserved_cells(const Call& call, const Sequence& q, int64_t d, int64_t t) {
    if (call.reserve.empty()) return nullptr;
    return reinterpret_cast<float*>(call.reserve.data()) + q.directions * q.rows() * q.gates() +
           (d * q.rows() + t * q.samples) * q.hidden;
  }

  // Fills the gradients of the gates' arguments; dh and dc end as those of the initial states.
  void run_back(const Call& call, const Sequence& q, const Direction& direction, float* dg,
                float* dh, float* dc, const Workspace& left) {
    const int64_t d = direction.index;
    load_states(q, d, data_of(call.output_gradients, 1), dh);
    load_states(q, d, data_of(call.output_gradients, 2), dc);
    const float* dy = data_of(call.output_gradients, 0);
    const float* initial = data_of(call.inputs, kInitialC);
    const float* r = call.inputs[kR].f32() + d * q.gates() * q.hidden;
    for (int64_t p = q.steps - 1; p >= 0; --p) {
      const int64_t t = direction.step(p);
      const float* before = p > 0 ? reserved_cells(call, q, d, direction.step(p - 1)) : nullptr;
      float* to = dg + t * q.samples * q.gates();
      for_samples(q, [&](int64_t s) {
        const float* c_before = p > 0                ? before + s * q.hidden
                                : initial == nullptr ? nullptr
                                                     : initial + q.state_row(d, s);
        retreat(LstmGates(reserved_gates(call, q, d, t) + s * q.gates(), q.hidden),
                reserved_cells(call, q, d, t) + s * q.hidden, c_before,
                dy == nullptr ? nullptr : dy + q.y_row(t, d, s), q.hidden, dh + s * q.hidden,
                dc + s * q.hidden, LstmGates(to + s * q.gates(), q.hidden));
      });
      matmul_.run(recurrent_gradient(q), {to, false}, {r, false}, nullptr, dh, left);
    }
  }

  void x_gradient(const Call& call, const Sequence& q, const float* dg, Workspace& workspace,
                  float* dx) {
    float* by_step = q.samples_first ? workspace.take<float>(q.rows() * q.inputs) : dx;
    for (int64_t d = 0; d < q.directions; ++d)
      matmul_.run(input_gradient_product(q, d > 0), {dg + d * q.rows() * q.gates(), false},
                  {call.inputs[kW].f32() + d * q.gates() * q.inputs, false}, nullptr, by_step,
                  workspace);
    if (!q.samples_first) return;
    for (int64_t t = 0; t < q.steps; ++t)
      for (int64_t s = 0; s < q.samples; ++s)
        std::copy_n(by_step + (t * q.samples + s) * q.inputs, q.inputs, dx + q.x_row(t, s));
  }

  // The hidden units that each step began with.
  static void hidden_before(const Call& call, const Sequence& q, const Direction& direction,
                            float* to) {
    const int64_t d = direction.index;
    load_states(q, d, data_of(call.inputs, kInitialH),
                to + direction.step(0) * q.samples * q.hidden);
    for (int64_t p = 1; p < q.steps; ++p)
      for (int64_t s = 0; s < q.samples; ++s)
        std::copy_n(call.outputs[0].f32() + q.y_row(direction.step(p - 1), d, s), q.hidden,
                    to + (direction.step(p) * q.samples + s) * q.hidden);
  }

  const Lstm& op_;
  std::vector<bool> back_;  // of the directions held here
  DnnlMatmul matmul_;
};

}  // namespace

KernelEntries register_lstm() {
  return {{.op = "LSTM",
           .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<LstmKernel>(site);
           },
           .workspace =
               [](const BoundOperator& op, const LocalSpecs& local, int threads) {
                 return LstmKernel::workspace(static_cast<const Lstm&>(op), local, threads);
               }}};
}

}  // namespace kerf::ops::cpu
