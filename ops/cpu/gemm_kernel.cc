// Gemm on the CPU: three oneDNN matmuls, and column sums for the bias.
#include "ops/cpu/column_sum.h"
#include "ops/cpu/dnnl_matmul.h"
#include "ops/kernel.h"
#include "ops/operators/gemm.h"

namespace kerf::ops::cpu {
namespace {

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
    matmul_.run({.m = y.shape[0], .n = y.shape[1], .k = a.shape[1], .alpha = op_.alpha()},
                {a.f32(), false}, {call.inputs[1].f32(), op_.transpose_b()},
                bias_inside ? c : nullptr, y.f32());
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

  // Sums over micro-batches are taken inside the multiplication.
  void product_gradient(const Call& call, const TensorView& dy, const GradientTarget& target) {
    const int64_t count = target.to.elements();
    if (count == 0 || dy.elements() == 0) {
      if (!target.accumulate) std::fill_n(target.to.f32(), count, 0.0F);
      return;
    }
    DnnlMatmul::Problem problem{.m = target.to.shape[0],
                                .n = target.to.shape[1],
                                .alpha = op_.alpha(),
                                .accumulate = target.accumulate};
    if (target.input == 0) {
      problem.k = dy.shape[1];
      matmul_.run(problem, {dy.f32(), false}, {call.inputs[1].f32(), !op_.transpose_b()}, nullptr,
                  target.to.f32());
      return;
    }
    const float* a = call.inputs[0].f32();
    problem.k = dy.shape[0];
    matmul_.run(problem, {op_.transpose_b() ? dy.f32() : a, true},
                {op_.transpose_b() ? a : dy.f32(), false}, nullptr, target.to.f32());
  }

  const Gemm& op_;
  DnnlMatmul matmul_;
};

std::unique_ptr<Kernel> make_gemm(const KernelSite& site) {
  return std::make_unique<GemmKernel>(site.as<Gemm>());
}

}  // namespace

KernelEntries register_gemm() { return {{"Gemm", make_gemm}}; }

}  // namespace kerf::ops::cpu
