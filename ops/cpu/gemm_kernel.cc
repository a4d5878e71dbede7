// Gemm on the CPU: three oneDNN matmuls, and column sums for the bias.
#include "ops/cpu/column_sum.h"
#include "ops/cpu/dnnl_matmul.h"
#include "ops/kernel.h"
#include "ops/operators/gemm.h"

namespace kerf::ops::cpu {
namespace {

DnnlMatmul::Problem gemm_product(const Gemm& op, const Shape& a, const Shape& y) {
  return {.m = y[0], .n = y[1], .k = a[1], .alpha = op.alpha()};
}

// Of A (0) or B (1), whose shape is `to`. Sums over micro-batches are taken inside.
DnnlMatmul::Problem gemm_gradient(const Gemm& op, int input, const Shape& to, const Shape& y,
                                  bool accumulate) {
  return {.m = to[0],
          .n = to[1],
          .k = y[input == 0 ? 1 : 0],
          .alpha = op.alpha(),
          .accumulate = accumulate};
}

class GemmKernel final : public PlainKernel {
 public:
  explicit GemmKernel(const Gemm& op) : op_(op) {}

  void forward(const Call& call) override {
    const TensorView& a = call.inputs[0];
    const TensorView& y = call.outputs[0];
    // Absent, or left to the call that has inner index 0.
    const float* c = call.inputs.size() > 2 ? call.inputs[2].f32() : nullptr;
    const bool bias_inside = c != nullptr && op_.alpha() == 1 && op_.beta() == 1;
    if (y.elements() == 0) return;
    matmul_.run(gemm_product(op_, a.shape, y.shape), {a.f32(), false},
                {call.inputs[1].f32(), op_.transpose_b()}, bias_inside ? c : nullptr, y.f32(),
                Workspace(call.workspace));
    if (c != nullptr && !bias_inside) add_bias(c, y);
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    for (const GradientTarget& target : targets) {
      if (target.input == 2)
        add_columns(dy.f32(), dy.shape[0], dy.shape[1], op_.beta(), target.to.f32(),
                    target.accumulate);
      else
        product_gradient(call, dy, target);
    }
  }

 private:
  void add_bias(const float* c, const TensorView& y) const {
    const int64_t columns = y.shape[1];
    for (int64_t row = 0; row < y.shape[0]; ++row)
      for (int64_t j = 0; j < columns; ++j) y.f32()[row * columns + j] += op_.beta() * c[j];
  }

  void product_gradient(const Call& call, const TensorView& dy, const GradientTarget& target) {
    const int64_t count = target.to.elements();
    if (count == 0 || dy.elements() == 0) {
      if (!target.accumulate) std::fill_n(target.to.f32(), count, 0.0F);
      return;
    }
    const DnnlMatmul::Problem problem =
        gemm_gradient(op_, target.input, target.to.shape, dy.shape, target.accumulate);
    const Workspace workspace(call.workspace);
    if (target.input == 0) {
      matmul_.run(problem, {dy.f32(), false}, {call.inputs[1].f32(), !op_.transpose_b()}, nullptr,
                  target.to.f32(), workspace);
      return;
    }
    const float* a = call.inputs[0].f32();
    matmul_.run(problem, {op_.transpose_b() ? dy.f32() : a, true},
                {op_.transpose_b() ? a : dy.f32(), false}, nullptr, target.to.f32(), workspace);
  }

  const Gemm& op_;
  DnnlMatmul matmul_;
};

std::unique_ptr<Kernel> make_gemm(const KernelSite& site) {
  return std::make_unique<GemmKernel>(site.as<Gemm>());
}

// Of the product that takes most.
size_t gemm_workspace(const BoundOperator& bound, const LocalSpecs& local, int threads) {
  const auto& op = static_cast<const Gemm&>(bound);
  const Shape& a = local.inputs[0].shape;
  const Shape& b = local.inputs[1].shape;
  const Shape& y = local.outputs[0].shape;
  if (y.elements() == 0 || a.elements() == 0) return 0;
  size_t most = 0;
  const auto add = [&](const DnnlMatmul::Problem& problem, bool transposed_a, bool transposed_b,
                       bool bias) {
    most = std::max(
        most, DnnlMatmul::workspace_bytes(problem, transposed_a, transposed_b, bias, threads));
  };
  for (const bool bias : {false, true})
    if (!bias || op.has(2)) add(gemm_product(op, a, y), false, op.transpose_b(), bias);
  if (op.inputs()[0].wants_gradient)
    add(gemm_gradient(op, 0, a, y, false), false, !op.transpose_b(), false);
  for (const bool accumulate : {false, true})
    if (op.inputs()[1].wants_gradient)
      add(gemm_gradient(op, 1, b, y, accumulate), true, false, false);
  return most;
}

}  // namespace

KernelEntries register_gemm() { return {{"Gemm", make_gemm, gemm_workspace}}; }

}  // namespace kerf::ops::cpu
