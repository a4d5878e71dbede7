// The element-wise functions of one input on the CPU: every entry of ops/elementwise.h.
#include "ops/activation_kernel.h"
#include "ops/elementwise.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

using Entries = decltype(kElementwise);

// Entry `kIndex` of the family. Loops may run in place.
template <size_t kIndex>
struct Loops {
  KERF_CLONES static void forward(const float* x, int64_t count, float* y) {
    constexpr auto function = std::get<kIndex>(kElementwise).forward;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) y[i] = function(x[i]);
  }
  // Where the derivative is 0 so is the gradient, even of an infinite dy.
  KERF_CLONES static void gradient(const float* read, const float* dy, int64_t count, float* dx) {
    constexpr auto derivative = std::get<kIndex>(kElementwise).derivative;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float slope = derivative(read[i]);
      dx[i] = slope == 0 ? 0 : slope * dy[i];
    }
  }
};

template <size_t kIndex>
class ElementwiseKernel final : public ActivationKernel {
 public:
  void forward(const Call& call) override {
    const float* x = call.inputs[0].f32();
    float* y = call.outputs[0].f32();
    simd::parallel_pieces(call.outputs[0].elements(), simd::kLeastElements,
                          [&](int64_t begin, int64_t end) {
                            Loops<kIndex>::forward(x + begin, end - begin, y + begin);
                          });
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    constexpr bool kReadsOutput = std::get<kIndex>(kElementwise).reads_output;
    const float* read = (kReadsOutput ? call.outputs[0] : call.inputs[0]).f32();
    const float* dy = call.output_gradients[0].f32();
    for (const GradientTarget& target : targets) {
      float* dx = target.to.f32();
      simd::parallel_pieces(
          target.to.elements(), simd::kLeastElements, [&](int64_t begin, int64_t end) {
            Loops<kIndex>::gradient(read + begin, dy + begin, end - begin, dx + begin);
          });
    }
  }
};

template <size_t kIndex>
std::unique_ptr<Kernel> make_elementwise(const KernelSite&) {
  return std::make_unique<ElementwiseKernel<kIndex>>();
}

template <size_t... kIndex>
KernelEntries entries(std::index_sequence<kIndex...>) {
  return {{std::get<kIndex>(kElementwise).name, make_elementwise<kIndex>}...};
}

}  // namespace

KernelEntries register_elementwise() {
  return entries(std::make_index_sequence<std::tuple_size_v<Entries>>());
}

}  // namespace kerf::ops::cpu
