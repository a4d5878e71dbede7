// The element-wise functions of one input on a GPU: every entry of ops/elementwise.h.
#include "ops/activation_kernel.h"
#include "ops/cuda/bodies.cuh"
#include "ops/cuda/cuda_workbench.h"
#include "ops/elementwise.h"

namespace kerf::ops::cuda {
namespace {

// Of entry `kIndex`. Its functions are constexpr, so the device has them too.
template <size_t kIndex>
struct ElementwiseForward {
  const float* x;
  float* y;
  KERF_DEVICE void operator()(int64_t i) const {
    constexpr auto function = std::get<kIndex>(kElementwise).forward;
    y[i] = function(x[i]);
  }
};

// Where the derivative is 0 so is the gradient, even of an infinite dy.
template <size_t kIndex>
struct ElementwiseGradient {
  const float* read;
  const float* dy;
  float* dx;
  KERF_DEVICE void operator()(int64_t i) const {
    constexpr auto derivative = std::get<kIndex>(kElementwise).derivative;
    const float slope = derivative(read[i]);
    dx[i] = slope == 0 ? 0 : slope * dy[i];
  }
};

template <size_t kIndex>
class ElementwiseKernel final : public ActivationKernel {
 public:
  explicit ElementwiseKernel(const Queue& queue) : queue_(queue) {}

  void forward(const Call& call) override {
    for_each(queue_, call.outputs[0].elements(),
             ElementwiseForward<kIndex>{call.inputs[0].f32(), call.outputs[0].f32()});
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    constexpr bool kReadsOutput = std::get<kIndex>(kElementwise).reads_output;
    const float* read = (kReadsOutput ? call.outputs[0] : call.inputs[0]).f32();
    for (const GradientTarget& target : targets)
      for_each(queue_, target.to.elements(),
               ElementwiseGradient<kIndex>{read, call.output_gradients[0].f32(), target.to.f32()});
  }

 private:
  const Queue& queue_;
};

template <size_t kIndex>
std::unique_ptr<Kernel> make_elementwise(const KernelSite& site) {
  return std::make_unique<ElementwiseKernel<kIndex>>(queue_of(site));
}

template <size_t... kIndex>
KernelEntries elementwise_entries(std::index_sequence<kIndex...>) {
  return {{std::get<kIndex>(kElementwise).name, make_elementwise<kIndex>}...};
}

}  // namespace

KernelEntries register_elementwise() {
  return elementwise_entries(std::make_index_sequence<std::tuple_size_v<decltype(kElementwise)>>());
}

}  // namespace kerf::ops::cuda
