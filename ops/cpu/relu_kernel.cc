// Relu on the CPU. NaN stays NaN, so that a diverged run shows.
#include "ops/cpu/kernels.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

KERF_CLONES void relu(const float* x, int64_t count, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] < 0 ? 0 : x[i];
}

KERF_CLONES void relu_gradient(const float* y, const float* dy, int64_t count, float* dx) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) dx[i] = y[i] > 0 ? dy[i] : 0;
}

KERF_CLONES void add_relu_gradient(const float* y, const float* dy, int64_t count, float* dx) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) dx[i] += y[i] > 0 ? dy[i] : 0;
}

class ReluKernel final : public Kernel {
 public:
  void forward(const Call& call) override {
    const float* x = call.inputs[0].f32();
    float* y = call.outputs[0].f32();
    simd::parallel_pieces(call.outputs[0].elements(), simd::kLeastElements,
                    [&](int64_t begin, int64_t end) { relu(x + begin, end - begin, y + begin); });
  }

  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const float* y = call.outputs[0].f32();
    const float* dy = call.output_gradients[0].f32();
    for (const auto& target : targets) {
      float* dx = target.to.f32();
      const auto work = target.accumulate ? add_relu_gradient : relu_gradient;
      simd::parallel_pieces(target.to.elements(), simd::kLeastElements, [&](int64_t begin, int64_t end) {
        work(y + begin, dy + begin, end - begin, dx + begin);
      });
    }
  }
};

}  // namespace

std::unique_ptr<Kernel> make_relu_kernel() { return std::make_unique<ReluKernel>(); }

}  // namespace kerf::ops::cpu
