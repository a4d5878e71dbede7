// Gemm on the CPU: three oneDNN matmuls, and column sums for the bias.
#include "ops/cpu/column_sum.h"
#include "ops/cpu/dnnl_matmul.h"
#include "ops/cpu/kernels.h"
#include "ops/gemm.h"

namespace kerf::ops::cpu {
namespace {

class GemmKernel final : public Kernel {
 public:
  explicit GemmKernel(const GemmOptions& options) : options_(options) {}

  void forward(const Call& call) override {
    const TensorView& a = call.inputs[0];
    const TensorView& y = call.outputs[0];
    const float* c = call.inputs.size() > 2 ? call.inputs[2].f32() : nullptr;
    const bool bias_inside = c != nullptr && options_.alpha == 1 && options_.beta == 1;
    if (y.elements() == 0) return;
    matmul_.run({.m = y.shape[0], .n = y.shape[1], .k = a.shape[1], .alpha = options_.alpha},
                {a.f32(), false}, {call.inputs[1].f32(), options_.transpose_b},
                bias_inside ? c : nullptr, y.f32());
    if (c != nullptr && !bias_inside) add_bias(c, y);
  }

  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const auto& target : targets) {
      const TensorView& dy = call.output_gradients[0];
      if (target.input == 0)
        input_gradient(call, dy, target);
      else if (target.input == 1)
        weight_gradient(call, dy, target);
      else
        add_columns(dy.f32(), dy.shape[0], dy.shape[1], options_.beta, target.to.f32(),
                    target.accumulate);
    }
  }

 private:
  void add_bias(const float* c, const TensorView& y) const {
    const int64_t columns = y.shape[1];
    for (int64_t row = 0; row < y.shape[0]; ++row)
      for (int64_t j = 0; j < columns; ++j) y.f32()[row * columns + j] += options_.beta * c[j];
  }

  void input_gradient(const Call& call, const TensorView& dy, const GradientTarget& target) {
    if (target.to.elements() == 0) return;
    matmul_.run({.m = dy.shape[0],
                 .n = target.to.shape[1],
                 .k = dy.shape[1],
                 .alpha = options_.alpha,
                 .accumulate = target.accumulate},
                {dy.f32(), false}, {call.inputs[1].f32(), !options_.transpose_b}, nullptr,
                target.to.f32());
  }

  // The sum over this micro-batch's rows, added to the earlier ones' inside the multiplication.
  void weight_gradient(const Call& call, const TensorView& dy, const GradientTarget& target) {
    const TensorView& a = call.inputs[0];
    if (dy.shape[0] == 0) {
      if (!target.accumulate) std::fill_n(target.to.f32(), target.to.elements(), 0.0F);
      return;
    }
    const TensorView& left = options_.transpose_b ? dy : a;
    const TensorView& right = options_.transpose_b ? a : dy;
    matmul_.run({.m = left.shape[1],
                 .n = right.shape[1],
                 .k = dy.shape[0],
                 .alpha = options_.alpha,
                 .accumulate = target.accumulate},
                {left.f32(), true}, {right.f32(), false}, nullptr, target.to.f32());
  }

  GemmOptions options_;
  DnnlMatmul matmul_;
};

}  // namespace

std::unique_ptr<Kernel> make_gemm_kernel(const GemmOptions& options) {
  return std::make_unique<GemmKernel>(options);
}

}  // namespace kerf::ops::cpu
