// Flatten and Reshape on the CPU: nothing where the memory is shared, a copy where it is not.
#include <cstring>

#include "ops/cpu/kernels.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

class AliasKernel final : public Kernel {
 public:
  void forward(const Call& call) override {
    const TensorView& from = call.inputs[0];
    const TensorView& to = call.outputs[0];
    if (from.data != to.data && to.bytes() > 0) std::memcpy(to.data, from.data, to.bytes());
  }

  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const float* from = call.output_gradients[0].f32();
    for (const auto& target : targets) {
      if (target.to.f32() == from && !target.accumulate) continue;
      simd::copy_or_add(from, target.to.elements(), target.to.f32(), target.accumulate);
    }
  }
};

}  // namespace

std::unique_ptr<Kernel> make_alias_kernel() { return std::make_unique<AliasKernel>(); }

}  // namespace kerf::ops::cpu
