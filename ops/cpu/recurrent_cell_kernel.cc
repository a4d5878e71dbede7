// RecurrentCell on the CPU: one product a call, and what recurrent_cell.h does row by row. The
// arguments of R h + b are those of the gates, but for a GRU's n, whose reset gate is between.
#include <algorithm>

#include "ops/cpu/column_sum.h"
#include "ops/cpu/matrix_product.h"
#include "ops/cpu/recurrent_cell.h"
#include "ops/kernel.h"
#include "ops/local_index.h"
#include "ops/operators/recurrent_cell.h"
#include "ops/simd/simd.h"
#include "ops/workspace.h"

namespace kerf::ops::cpu {
namespace {

// Extents of one call.
struct CellExtents {
  int64_t samples = 0;
  int64_t units = 0;  // of this part
  int64_t row = 0;    // of its gates
  int64_t hidden = 0;

  CellExtents(const RecurrentCell& op, const Shape& gates, const Shape& r)
      : units(r[1] / op.gates()), row(r[1]), hidden(op.hidden()) {
    samples = row == 0 ? 0 : gates.elements() / row;
  }

  using Product = MatrixProduct::Problem;
  Product forward(bool accumulate) const {
    return {.m = samples, .n = row, .k = hidden, .accumulate = accumulate};
  }
  Product of_state() const { return {.m = samples, .n = hidden, .k = row}; }
  Product of_weights(bool accumulate) const {
    return {.m = row, .n = hidden, .k = samples, .accumulate = accumulate};
  }
};

const float* cell_data(std::span<const TensorView> views, int i) {
  return i < static_cast<int>(views.size()) ? views[static_cast<size_t>(i)].f32() : nullptr;
}

class RecurrentCellKernel final : public Kernel {
 public:
  explicit RecurrentCellKernel(const KernelSite& site)
      : op_(site.as<RecurrentCell>()),
        units_(site.iterations.axes[static_cast<size_t>(op_.units_axis())], op_.hidden()) {}

  void forward(const Call& call) override {
    const CellExtents e = extents(call);
    if (e.samples * e.units == 0) return;
    Workspace workspace(call.workspace);
    auto* gates = call.reserve.empty() ? workspace.take<float>(e.samples * e.row)
                                       : reinterpret_cast<float*>(call.reserve.data());
    std::copy_n(call.inputs[RecurrentCell::kGates].f32(), e.samples * e.row, gates);
    const float* b = cell_data(call.inputs, RecurrentCell::kB);
    add_bias(e, b, gates);
    // R h + b, apart or added.
    float* of_h = is(Recurrent::Kind::kGru) ? workspace.take<float>(e.samples * e.row) : gates;
    if (of_h != gates) std::fill_n(of_h, e.samples * e.row, 0.0F);
    add_bias(e, b == nullptr ? nullptr : b + e.row, of_h);
    if (const float* h = cell_data(call.inputs, RecurrentCell::kH); h != nullptr)
      matmul_.run(e.forward(true), {h, false}, {call.inputs[RecurrentCell::kR].f32(), true},
                  nullptr, of_h, workspace);
    for_rows(e, [&](int64_t s) { advance(call, e, s, gates, of_h); });
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const CellExtents e = extents(call);
    if (e.samples * e.units == 0) return clear(targets);
    Workspace workspace(call.workspace);
    const int64_t size = e.samples * e.row;
    const bool apart = is(Recurrent::Kind::kGru);
    auto* arguments = !call.handed.empty() ? reinterpret_cast<float*>(call.handed.data())
                                           : workspace.take<float>((apart ? 2 : 1) * size);
    float* of_h = apart ? arguments + size : arguments;
    auto* dh = workspace.take<float>(e.samples * e.units);
    auto* dc = workspace.take<float>(e.samples * e.units);
    auto* before = workspace.take<float>(e.samples * e.units);
    for_rows(e, [&](int64_t s) {
      take(cell_data(call.output_gradients, 0), e, s, dh);
      take(cell_data(call.output_gradients, 1), e, s, dc);
      retreat(call, e, s, {arguments, of_h, dh, dc, before});
    });
    for (const GradientTarget& target : targets) {
      float* to = target.to.f32();
      if (target.input == RecurrentCell::kGates)
        std::copy_n(arguments, size, to);
      else if (target.input == RecurrentCell::kC)
        std::copy_n(dc, e.samples * e.units, to);
      else
        state_gradient(call, e, of_h, dh, to, workspace);
    }
  }

  void weight_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const CellExtents e = extents(call);
    const float* h = cell_data(call.inputs, RecurrentCell::kH);
    const auto* arguments = reinterpret_cast<const float*>(call.handed.data());
    const float* of_h = arguments + (is(Recurrent::Kind::kGru) ? e.samples * e.row : 0);
    for (const GradientTarget& target : targets) {
      float* to = target.to.f32();
      const bool bias = target.input == RecurrentCell::kB;
      if (e.samples * e.units == 0 || (!bias && h == nullptr)) {
        if (!target.accumulate) std::fill_n(to, target.to.elements(), 0.0F);
      } else if (bias) {
        add_columns(arguments, e.samples, e.row, 1, to, target.accumulate);
        add_columns(of_h, e.samples, e.row, 1, to + e.row, target.accumulate);
      } else {
        matmul_.run(e.of_weights(target.accumulate), {of_h, true}, {h, false}, nullptr, to,
                    Workspace(call.workspace));
      }
    }
  }

  static size_t workspace(const RecurrentCell& op, const LocalSpecs& local, int threads) {
    const CellExtents e(op, local.inputs[RecurrentCell::kGates].shape,
                        local.inputs[RecurrentCell::kR].shape);
    if (e.samples * e.units == 0) return 0;
    const bool apart = op.kind() == Recurrent::Kind::kGru;
    const size_t gates = piece_bytes<float>(e.samples * e.row);
    const size_t forward = gates * (apart ? 2 : 1);
    const size_t arguments =
        op.handed_bytes(local) > 0 ? 0 : piece_bytes<float>((apart ? 2 : 1) * e.samples * e.row);
    const size_t backward = arguments + 3 * piece_bytes<float>(e.samples * e.units);
    size_t product = MatrixProduct::workspace_bytes(e.forward(true), false, true, false, threads);
    const auto add = [&](const MatrixProduct::Problem& problem, bool transposed) {
      product = std::max(
          product, MatrixProduct::workspace_bytes(problem, transposed, false, false, threads));
    };
    add(e.of_state(), false);
    for (const bool accumulate : {false, true}) add(e.of_weights(accumulate), true);
    return std::max(forward, backward) + product;
  }

 private:
  // Of one call backward, by sample: gradients of the arguments of the gates and of R h + b, of the
  // states, and what the units of h were.
  struct Rows {
    float* arguments;
    float* of_h;
    float* dh;
    float* dc;
    float* before;
  };

  bool is(Recurrent::Kind kind) const { return op_.kind() == kind; }
  CellExtents extents(const Call& call) const {
    return {op_, call.inputs[RecurrentCell::kGates].shape, call.inputs[RecurrentCell::kR].shape};
  }

  static void clear(std::span<const GradientTarget> targets) {
    for (const GradientTarget& target : targets)
      std::fill_n(target.to.f32(), target.to.elements(), 0.0F);
  }

  template <class Row>
  static void for_rows(const CellExtents& e, const Row& row) {
    simd::parallel_pieces(e.samples, 1 + 2048 / e.units, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) row(s);
    });
  }

  static void add_bias(const CellExtents& e, const float* b, float* rows) {
    for (int64_t s = 0; b != nullptr && s < e.samples; ++s)
      for (int64_t j = 0; j < e.row; ++j) rows[s * e.row + j] += b[j];
  }

  // This part's units of h.
  void own_units(const Call& call, const CellExtents& e, int64_t s, float* to) const {
    const float* h = cell_data(call.inputs, RecurrentCell::kH);
    for (int64_t j = 0; j < e.units; ++j)
      to[j] = h == nullptr ? 0.0F : h[s * e.hidden + units_.global(j)];
  }

  // One row of a tensor of this part's units; zeros where there is none.
  static void take(const float* from, const CellExtents& e, int64_t s, float* to) {
    if (from == nullptr)
      std::fill_n(to + s * e.units, e.units, 0.0F);
    else
      std::copy_n(from + s * e.units, e.units, to + s * e.units);
  }

  void advance(const Call& call, const CellExtents& e, int64_t s, float* gates,
               const float* of_h) const {
    float* row = gates + s * e.row;
    float* h = call.outputs[0].f32() + s * e.units;
    if (is(Recurrent::Kind::kRnn)) {
      advance_rnn(op_.activation(), e.units, row, h);
    } else if (is(Recurrent::Kind::kLstm)) {
      take(cell_data(call.inputs, RecurrentCell::kC), e, s, call.outputs[1].f32());
      advance_lstm(e.units, row, call.outputs[1].f32() + s * e.units, h);
    } else {
      own_units(call, e, s, h);
      float* kept = call.reserve.empty() ? nullptr : gates + e.samples * e.row + s * e.units;
      open_gates_linear(e.units, row, of_h + s * e.row, kept);
      advance_gru(e.units, row, h);
    }
  }

  void retreat(const Call& call, const CellExtents& e, int64_t s, const Rows& rows) const {
    const auto* reserve = reinterpret_cast<const float*>(call.reserve.data());
    const float* gates = reserve + s * e.row;
    float* to = rows.arguments + s * e.row;
    float* dh = rows.dh + s * e.units;
    if (is(Recurrent::Kind::kRnn)) {
      retreat_rnn(op_.activation(), gates, nullptr, e.units, dh, to);
    } else if (is(Recurrent::Kind::kLstm)) {
      const float* c = cell_data(call.inputs, RecurrentCell::kC);
      retreat_lstm(gates, call.outputs[1].f32() + s * e.units,
                   c == nullptr ? nullptr : c + s * e.units, nullptr, e.units, dh,
                   rows.dc + s * e.units, to);
    } else {
      float* before = rows.before + s * e.units;
      own_units(call, e, s, before);
      retreat_gru(gates, before, nullptr, e.units, dh, to);
      float* of_h = rows.of_h + s * e.row;
      retreat_linear(gates, reserve + e.samples * e.row + s * e.units, e.units, to,
                     of_h + 2 * e.units);
      std::copy_n(to, 2 * e.units, of_h);
    }
  }

  // Of all of h: what every gate of this part's units takes of it, and what a GRU's units pass on.
  void state_gradient(const Call& call, const CellExtents& e, const float* of_h, const float* dh,
                      float* to, const Workspace& left) {
    matmul_.run(e.of_state(), {of_h, false}, {call.inputs[RecurrentCell::kR].f32(), false}, nullptr,
                to, left);
    if (!is(Recurrent::Kind::kGru)) return;
    for (int64_t s = 0; s < e.samples; ++s)
      for (int64_t j = 0; j < e.units; ++j)
        to[s * e.hidden + units_.global(j)] += dh[s * e.units + j];
  }

  const RecurrentCell& op_;
  LocalIndex units_;
  MatrixProduct matmul_;
};

}  // namespace

KernelEntries register_recurrent_cell() {
  return {{"RecurrentCell",
           [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<RecurrentCellKernel>(site);
           },
           [](const BoundOperator& op, const LocalSpecs& local, int threads) {
             return RecurrentCellKernel::workspace(static_cast<const RecurrentCell&>(op), local,
                                                   threads);
           }}};
}

}  // namespace kerf::ops::cpu
