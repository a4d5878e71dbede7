// Gemm on a GPU: three products of cuBLASLt, the bias within the first where it is not scaled, and
// column sums for its gradient.
#include "ops/cuda/bodies.cuh"
#include "ops/cuda/lt_matmul.h"
#include "ops/operators/gemm.h"

namespace kerf::ops::cuda {
namespace {

struct AddScaledBias {
  const float* bias;
  float beta;
  int64_t columns;
  float* y;
  KERF_DEVICE void operator()(int64_t i) const { y[i] += beta * bias[i % columns]; }
};

// Row r of the work is a column.
struct BiasGradient : Adding<float> {
  const float* dy;
  int64_t rows;
  int64_t columns;
  float beta;
  float* to;
  bool accumulate;
  KERF_DEVICE int64_t length(int64_t) const { return rows; }
  KERF_DEVICE float term(int64_t column, int64_t row) const { return dy[row * columns + column]; }
  KERF_DEVICE void finish(int64_t column, float sum) const {
    put(to + column, accumulate, beta * sum);
  }
};

class GemmKernel final : public PlainKernel {
 public:
  explicit GemmKernel(const KernelSite& site)
      : queue_(queue_of(site)), op_(site.as<Gemm>()), matmul_(workbench_of(site)) {}

  void forward(const Call& call) override {
    const TensorView& a = call.inputs[0];
    const TensorView& y = call.outputs[0];
    // Absent, or left to the call that has inner index 0.
    const float* c = call.inputs.size() > 2 ? call.inputs[2].f32() : nullptr;
    const bool bias_inside = c != nullptr && op_.beta() == 1;
    if (y.elements() == 0) return;
    matmul_.run({.m = y.shape[0],
                 .n = y.shape[1],
                 .k = a.shape[1],
                 .alpha = op_.alpha(),
                 .transpose_b = op_.transpose_b()},
                a.f32(), call.inputs[1].f32(), bias_inside ? c : nullptr, y.f32(), call.workspace);
    if (c != nullptr && !bias_inside)
      for_each(queue_, y.elements(), AddScaledBias{c, op_.beta(), y.shape[1], y.f32()});
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    for (const GradientTarget& target : targets)
      if (target.input == 2)
        reduce_rows(queue_, target.to.elements(),
                    BiasGradient{{},
                                 dy.f32(),
                                 dy.shape[0],
                                 dy.shape[1],
                                 op_.beta(),
                                 target.to.f32(),
                                 target.accumulate});
      else
        product_gradient(call, dy, target);
  }

 private:
  // Sums over micro-batches are taken inside the multiplication.
  void product_gradient(const Call& call, const TensorView& dy, const GradientTarget& target) {
    if (target.to.elements() == 0) return;
    if (dy.elements() == 0) {
      if (!target.accumulate) clear(queue_, target.to);
      return;
    }
    LtMatmul::Problem problem{.m = target.to.shape[0],
                              .n = target.to.shape[1],
                              .alpha = op_.alpha(),
                              .accumulate = target.accumulate};
    if (target.input == 0) {
      problem.k = dy.shape[1];
      problem.transpose_b = !op_.transpose_b();
      matmul_.run(problem, dy.f32(), call.inputs[1].f32(), nullptr, target.to.f32(),
                  call.workspace);
      return;
    }
    const float* a = call.inputs[0].f32();
    problem.k = dy.shape[0];
    problem.transpose_a = true;
    matmul_.run(problem, op_.transpose_b() ? dy.f32() : a, op_.transpose_b() ? a : dy.f32(),
                nullptr, target.to.f32(), call.workspace);
  }

  const Queue& queue_;
  const Gemm& op_;
  LtMatmul matmul_;
};

// The largest of the three products'.
size_t gemm_workspace(const BoundOperator&, const LocalSpecs& local, int) {
  size_t most = 0;
  for (const Shape* result :
       {&local.outputs[0].shape, &local.inputs[0].shape, &local.inputs[1].shape})
    most = std::max(most, LtMatmul::workspace_bytes(1, (*result)[0], (*result)[1]));
  return most;
}

}  // namespace

KernelEntries register_gemm() {
  return {{.op = "Gemm",
           .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<GemmKernel>(site);
           },
           .workspace = gemm_workspace}};
}

}  // namespace kerf::ops::cuda
