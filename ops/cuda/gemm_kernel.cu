// Gemm on a GPU: three products of cuBLASLt, the bias within the first where it is not scaled, and
// column sums for its gradient.
#include "ops/cuda/bodies.cuh"
#include "ops/cuda/lt_matmul.h"
#include "ops/operators/gemm.h"

namespace kerf::ops::cuda {
namespace {

// C at Y's places: repeated along an axis where its step is 0.
struct AddScaledBias {
  const float* bias;
  float beta;
  int64_t columns;
  int64_t row_step;
  int64_t column_step;
  float* y;
  KERF_DEVICE void operator()(int64_t i) const {
    y[i] += beta * bias[i / columns * row_step + i % columns * column_step];
  }
};

// Row r of the work is an element of C, of `bias_columns`, and its terms are what it was added to.
struct BiasGradient : Adding<float> {
  const float* dy;
  int64_t rows;  // over which it is repeated
  int64_t columns;
  int64_t width;  // of dY
  int64_t bias_columns;
  float beta;
  float* to;
  bool accumulate;
  KERF_DEVICE int64_t length(int64_t) const { return rows * columns; }
  KERF_DEVICE float term(int64_t element, int64_t i) const {
    const int64_t row = rows == 1 ? element / bias_columns : i / columns;
    const int64_t column = columns == 1 ? element % bias_columns : i % columns;
    return dy[row * width + column];
  }
  KERF_DEVICE void finish(int64_t element, float sum) const {
    put(to + element, accumulate, beta * sum);
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
    if (y.elements() == 0) return;
    const Shape matrix = c == nullptr ? Shape{0, 0} : bias_matrix(call.inputs[2].shape);
    const bool inside = c != nullptr && op_.beta() == 1 && matrix == Shape{1, y.shape[1]};
    matmul_.run({.m = y.shape[0],
                 .n = y.shape[1],
                 .k = a.shape[op_.transpose_a() ? 0 : 1],
                 .alpha = op_.alpha(),
                 .transpose_a = op_.transpose_a(),
                 .transpose_b = op_.transpose_b()},
                a.f32(), call.inputs[1].f32(), inside ? c : nullptr, y.f32(), call.workspace);
    if (c != nullptr && !inside)
      for_each(queue_, y.elements(),
               AddScaledBias{c, op_.beta(), y.shape[1], matrix[0] == 1 ? 0 : matrix[1],
                             matrix[1] == 1 ? 0 : 1, y.f32()});
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    for (const GradientTarget& target : targets)
      if (target.input == 2)
        bias_gradient(dy, target);
      else
        product_gradient(call, dy, target);
  }

 private:
  void bias_gradient(const TensorView& dy, const GradientTarget& target) {
    const Shape matrix = bias_matrix(target.to.shape);
    reduce_rows(queue_, target.to.elements(),
                BiasGradient{{},
                             dy.f32(),
                             matrix[0] == 1 ? dy.shape[0] : 1,
                             matrix[1] == 1 ? dy.shape[1] : 1,
                             dy.shape[1],
                             matrix[1],
                             op_.beta(),
                             target.to.f32(),
                             target.accumulate});
  }

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
    const GemmGradient order = gemm_gradient_of(op_, target.input);
    const float* other = call.inputs[target.input == 0 ? 1 : 0].f32();
    problem.k = dy.shape[target.input == 0 ? 1 : 0];
    problem.transpose_a = order.transpose_first;
    problem.transpose_b = order.transpose_second;
    matmul_.run(problem, order.dy_first ? dy.f32() : other, order.dy_first ? other : dy.f32(),
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
