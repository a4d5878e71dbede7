// Softmax on a GPU, a line to a block; its gradient is dx = y * (dy - sum(dy * y)).
#include <cmath>

#include "ops/activation_kernel.h"
#include "ops/cuda/axis_lines.cuh"
#include "ops/cuda/bodies.cuh"
#include "ops/cuda/cuda_workbench.h"
#include "ops/folded.h"
#include "ops/operators/softmax.h"

namespace kerf::ops::cuda {
namespace {

struct SoftmaxForward {
  using First = float;
  using Second = float;
  AxisLines lines;
  const float* x;
  float* y;
  KERF_DEVICE int64_t length(int64_t) const { return lines.length; }
  KERF_DEVICE First first(int64_t row, int64_t i) const { return x[lines.at(row, i)]; }
  KERF_DEVICE static First first_zero() { return -INFINITY; }
  KERF_DEVICE static First join_first(First a, First b) { return a < b ? b : a; }
  KERF_DEVICE Second second(int64_t row, int64_t i, First most) const {
    return std::exp(x[lines.at(row, i)] - most);
  }
  KERF_DEVICE static Second second_zero() { return 0; }
  KERF_DEVICE static Second join_second(Second a, Second b) { return a + b; }
  KERF_DEVICE void finish(int64_t, First, Second) const {}
  KERF_DEVICE void each(int64_t row, int64_t i, First most, Second sum) const {
    const int64_t at = lines.at(row, i);
    y[at] = std::exp(x[at] - most) / sum;
  }
};

struct SoftmaxGradient : Adding<float> {
  AxisLines lines;
  const float* y;
  const float* dy;
  float* dx;
  KERF_DEVICE int64_t length(int64_t) const { return lines.length; }
  KERF_DEVICE float term(int64_t row, int64_t i) const {
    return dy[lines.at(row, i)] * y[lines.at(row, i)];
  }
  KERF_DEVICE void finish(int64_t, float) const {}
  KERF_DEVICE void each(int64_t row, int64_t i, float sum) const {
    const int64_t at = lines.at(row, i);
    dx[at] = y[at] * (dy[at] - sum);
  }
};

class SoftmaxKernel final : public ActivationKernel {
 public:
  explicit SoftmaxKernel(const KernelSite& site)
      : ActivationKernel(site.op), queue_(queue_of(site)), axis_(site.as<Softmax>().axis()) {}

  void forward(const Call& call) override {
    const Folded folded = fold(call.outputs[0].shape, axis_);
    reduce_rows_twice(
        queue_, rows_of(folded),
        SoftmaxForward{{folded.length, folded.inner}, call.inputs[0].f32(), call.outputs[0].f32()});
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      const Folded folded = fold(target.to.shape, axis_);
      reduce_rows_then_each(queue_, rows_of(folded),
                            SoftmaxGradient{{},
                                            {folded.length, folded.inner},
                                            call.outputs[0].f32(),
                                            call.output_gradients[0].f32(),
                                            target.to.f32()});
    }
  }

 private:
  static int64_t rows_of(const Folded& folded) { return folded.outer * folded.inner; }

  const Queue& queue_;
  int axis_;
};

}  // namespace

KernelEntries register_softmax() {
  return {{.op = "Softmax", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<SoftmaxKernel>(site);
           }}};
}

}  // namespace kerf::ops::cuda
