// What reads its input with another shape, on the CPU: nothing where the memory is shared, a copy
// where it is not.
#include <cstring>

#include "ops/kernel.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

class ReshapeKernel final : public PlainKernel {
 public:
  void forward(const Call& call) override { move(call.inputs[0], call.outputs[0]); }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& from = call.output_gradients[0];
    for (const GradientTarget& target : targets)
      if (target.accumulate)
        simd::copy_or_add(from.f32(), target.to.elements(), target.to.f32(), true);
      else
        move(from, target.to);
  }

 private:
  static void move(const TensorView& from, const TensorView& to) {
    if (from.data != to.data && to.bytes() > 0) std::memcpy(to.data, from.data, to.bytes());
  }
};

std::unique_ptr<Kernel> make_reshape(const KernelSite&) {
  return std::make_unique<ReshapeKernel>();
}

}  // namespace

KernelEntries register_reshape() {
  KernelEntries entries;
  for (const char* name : {"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
    entries.push_back({name, make_reshape});
  return entries;
}

}  // namespace kerf::ops::cpu
