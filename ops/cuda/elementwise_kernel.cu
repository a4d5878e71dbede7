// The element-wise functions of one input on a GPU: every entry of ops/elementwise.h that has a
// derivative, in float32.
#include <set>

#include "ops/activation_kernel.h"
#include "ops/cuda/bodies.cuh"
#include "ops/cuda/cuda_workbench.h"
#include "ops/operators/elementwise.h"

namespace kerf::ops::cuda {
namespace {

using ElementNumbers = Parameters<float>;

// Of entry `kIndex`. Its functions are constexpr, so the device has them too.
template <size_t kIndex>
struct ElementwiseForward {
  const float* x;
  ElementNumbers parameters;
  float* y;
  KERF_DEVICE void operator()(int64_t i) const {
    constexpr auto function = std::get<kIndex>(kElementwise).forward;
    y[i] = applied(function, x[i], parameters);
  }
};

// Where the derivative is 0 so is the gradient, even of an infinite dy.
template <size_t kIndex>
struct ElementwiseGradient {
  const float* read;
  const float* dy;
  ElementNumbers parameters;
  float* dx;
  KERF_DEVICE void operator()(int64_t i) const {
    constexpr auto derivative = std::get<kIndex>(kElementwise).derivative;
    const float slope = applied(derivative, read[i], parameters);
    dx[i] = slope == 0 ? 0 : slope * dy[i];
  }
};

template <size_t kIndex>
class ElementwiseKernel final : public ActivationKernel {
 public:
  ElementwiseKernel(const ElementwiseOperator& op, const Queue& queue)
      : ActivationKernel(op), queue_(queue) {
    for (size_t i = 0; i < kElementParameters; ++i)
      parameters_.of[i] = static_cast<float>(op.parameters()[i]);
  }

  void forward(const Call& call) override {
    for_each(queue_, call.outputs[0].elements(),
             ElementwiseForward<kIndex>{call.inputs[0].f32(), parameters_, call.outputs[0].f32()});
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    constexpr DerivativeOf kOf = std::get<kIndex>(kElementwise).of;
    const float* dy = call.output_gradients[0].f32();
    const float* read = kOf == DerivativeOf::kOutput  ? call.outputs[0].f32()
                        : kOf == DerivativeOf::kInput ? call.inputs[0].f32()
                                                      : dy;
    for (const GradientTarget& target : targets)
      for_each(queue_, target.to.elements(),
               ElementwiseGradient<kIndex>{read, dy, parameters_, target.to.f32()});
  }

 private:
  const Queue& queue_;
  ElementNumbers parameters_;
};

using MakeElement = std::unique_ptr<Kernel> (*)(const ElementwiseOperator&, const Queue&);

template <size_t kIndex>
constexpr MakeElement element_maker() {
  if constexpr (kIsDerived<kIndex>)
    return [](const ElementwiseOperator& op, const Queue& queue) -> std::unique_ptr<Kernel> {
      return std::make_unique<ElementwiseKernel<kIndex>>(op, queue);
    };
  else
    return nullptr;
}

template <size_t... kIndex>
MakeElement element_maker_of(size_t entry, std::index_sequence<kIndex...>) {
  const MakeElement all[] = {element_maker<kIndex>()...};
  return all[entry];
}

std::unique_ptr<Kernel> make_elementwise(const KernelSite& site) {
  const auto& op = site.as<ElementwiseOperator>();
  if (!op.is_trained())
    throw Error(
        ErrorCode::kUnavailable,
        format("operator {} of {} has no kernel for device {}; run it on device cpu", op.name(),
               to_string(op.inputs()[0].spec.dtype), site.bench.device().name()));
  return element_maker_of(op.entry(), std::make_index_sequence<kElementwises>())(op,
                                                                                 queue_of(site));
}

template <size_t kIndex>
void add_element_name(std::set<std::string>& names) {
  if constexpr (kIsDerived<kIndex>) names.insert(std::get<kIndex>(kElementwise).name);
}

template <size_t... kIndex>
std::set<std::string> element_names(std::index_sequence<kIndex...>) {
  std::set<std::string> names;
  (add_element_name<kIndex>(names), ...);
  return names;
}

}  // namespace

KernelEntries register_elementwise() {
  KernelEntries entries;
  for (const std::string& name : element_names(std::make_index_sequence<kElementwises>()))
    entries.push_back({name, make_elementwise});
  return entries;
}

}  // namespace kerf::ops::cuda
