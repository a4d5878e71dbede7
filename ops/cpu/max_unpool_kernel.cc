// MaxUnpool on the CPU.
#include <algorithm>

#include "ops/activation_kernel.h"
#include "ops/operators/max_unpool.h"
#include "ops/workspace.h"

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
    const int64_t* indices = call.inputs[1].i64();
    const int64_t count = call.inputs[1].elements();
    Workspace workspace(call.workspace);
    auto* last = workspace.take<int64_t>(dy.elements());  // of those that meet at a place
    for (int64_t i = 0; i < count; ++i) last[place(indices[i], dy.shape)] = i;
    for (const GradientTarget& target : targets)
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = place(indices[i], dy.shape);
        target.to.f32()[i] = last[at] == i ? dy.f32()[at] : 0.0F;
      }
  }

  static size_t workspace(const BoundOperator& op, const LocalSpecs& local, int /*threads*/) {
    if (!op.inputs()[0].wants_gradient) return 0;
    return piece_bytes<int64_t>(local.outputs[0].shape.elements());
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
  return {{.op = "MaxUnpool",
           .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<MaxUnpoolKernel>(site);
           },
           .workspace = MaxUnpoolKernel::workspace}};
}

}  // namespace kerf::ops::cpu
