// MaxUnpool on the CPU.
#include <algorithm>

#include "ops/activation_kernel.h"
#include "ops/operators/max_unpool.h"

namespace kerf::ops::cpu {
namespace {

class MaxUnpoolKernel final : public ActivationKernel {
 public:
  explicit MaxUnpoolKernel(const KernelSite& site)
      : ActivationKernel(site.op), op_(site.as<MaxUnpool>()) {}

  void forward(const Call& call) override {
    const TensorView& y = call.outputs[0];
    std::fill_n(y.f32(), y.elements(), 0.0F);
    for (int64_t i = 0; i < call.inputs[0].elements(); ++i)
      y.f32()[place(call.inputs[1].i64()[i], y.shape)] = call.inputs[0].f32()[i];
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    for (const GradientTarget& target : targets)
      for (int64_t i = 0; i < target.to.elements(); ++i)
        target.to.f32()[i] = dy.f32()[place(call.inputs[1].i64()[i], dy.shape)];
  }

 private:
  // Of an index into what was pooled, in Y.
  int64_t place(int64_t index, const Shape& y) const {
    Shape pooled = op_.pooled();
    pooled[0] = y[0];
    if (index < 0 || index >= pooled.elements())
      throw Error(ErrorCode::kUsage,
                  format("MaxUnpool: index {} is not among the {} elements of {}", index,
                         pooled.elements(), to_string(pooled)));
    int64_t at = 0;
    int64_t stride = 1;
    for (int axis = y.rank(); axis-- > 0; stride *= y[axis]) {
      at += index % pooled[axis] * stride;
      index /= pooled[axis];
    }
    return at;
  }

  const MaxUnpool& op_;
};

}  // namespace

KernelEntries register_max_unpool() {
  return {{"MaxUnpool", [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<MaxUnpoolKernel>(site);
           }}};
}

}  // namespace kerf::ops::cpu
