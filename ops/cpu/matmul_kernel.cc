// MatMul on the CPU: as few oneDNN products as the stacks allow.
#include <algorithm>

#include "ops/cpu/dnnl_matmul.h"
#include "ops/kernel.h"
#include "ops/matmul_stacks.h"

namespace kerf::ops::cpu {
namespace {

DnnlMatmul::Problem matmul_product(const StackedProducts& p) {
  return {.batch = p.batch, .m = p.m, .n = p.n, .k = p.k};
}

// Of A (0) or B (1).
DnnlMatmul::Problem matmul_gradient(const StackedProducts& p, int input, bool accumulate) {
  if (input == 0) return {.batch = p.batch, .m = p.m, .n = p.k, .k = p.n, .accumulate = accumulate};
  return {.batch = p.batch, .m = p.k, .n = p.n, .k = p.m, .accumulate = accumulate};
}

class MatMulKernel final : public PlainKernel {
 public:
  void forward(const Call& call) override {
    const TensorView& y = call.outputs[0];
    if (y.elements() == 0) return;
    const StackedProducts p(call.inputs[0].shape, call.inputs[1].shape, y.shape);
    const Workspace workspace(call.workspace);
    p.for_each([&](int64_t a, int64_t b, int64_t to, bool, bool) {
      matmul_.run(matmul_product(p), {call.inputs[0].f32() + a, false},
                  {call.inputs[1].f32() + b, false}, nullptr, y.f32() + to, workspace);
    });
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    const Workspace workspace(call.workspace);
    for (const GradientTarget& target : targets) {
      float* to = target.to.f32();
      if (target.to.elements() == 0 || dy.elements() == 0) {
        if (!target.accumulate) std::fill_n(to, target.to.elements(), 0.0F);
        continue;
      }
      const StackedProducts p(call.inputs[0].shape, call.inputs[1].shape, dy.shape);
      p.for_each([&](int64_t a, int64_t b, int64_t y, bool first_of_a, bool first_of_b) {
        if (target.input == 0)
          matmul_.run(matmul_gradient(p, 0, target.accumulate || !first_of_a),
                      {dy.f32() + y, false}, {call.inputs[1].f32() + b, true}, nullptr, to + a,
                      workspace);
        else
          matmul_.run(matmul_gradient(p, 1, target.accumulate || !first_of_b),
                      {call.inputs[0].f32() + a, true}, {dy.f32() + y, false}, nullptr, to + b,
                      workspace);
      });
    }
  }

 private:
  DnnlMatmul matmul_;
};

std::unique_ptr<Kernel> make_matmul(const KernelSite&) { return std::make_unique<MatMulKernel>(); }

// Of the product that takes most.
size_t matmul_workspace(const BoundOperator& op, const LocalSpecs& local, int threads) {
  const Shape& y = local.outputs[0].shape;
  if (y.elements() == 0 || local.inputs[0].shape.elements() == 0) return 0;
  const StackedProducts p(local.inputs[0].shape, local.inputs[1].shape, y);
  size_t most = DnnlMatmul::workspace_bytes(matmul_product(p), false, false, false, threads);
  for (const int input : {0, 1})
    for (const bool accumulate : {false, true})
      if (op.inputs()[static_cast<size_t>(input)].wants_gradient)
        most = std::max(most, DnnlMatmul::workspace_bytes(matmul_gradient(p, input, accumulate),
                                                          input == 1, input == 0, false, threads));
  return most;
}

}  // namespace

KernelEntries register_matmul() { return {{"MatMul", make_matmul, matmul_workspace}}; }

}  // namespace kerf::ops::cpu
