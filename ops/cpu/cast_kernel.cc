// Cast on the CPU, by way of what the numbers are computed in. The gradient is cast back.
#include "ops/activation_kernel.h"
#include "ops/cpu/number_lanes.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

class CastKernel final : public ActivationKernel {
 public:
  using ActivationKernel::ActivationKernel;

  void forward(const Call& call) override { convert(call.inputs[0], call.outputs[0]); }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) convert(call.output_gradients[0], target.to);
  }

 private:
  static void convert(const TensorView& from, const TensorView& to) {
    simd::parallel_pieces(to.elements(), simd::kLeastElements, [&](int64_t begin, int64_t end) {
      with_lane(from.dtype, [&](auto lane) {
        using Lane = decltype(lane);
        for (int64_t at = begin; at < end; at += kLanes) {
          Lane lanes[kLanes];
          const int64_t some = std::min(kLanes, end - at);
          load_lanes(from, at, 1, some, lanes);
          store_lanes(lanes, some, to, at);
        }
      });
    });
  }
};

std::unique_ptr<Kernel> make_cast(const KernelSite& site) {
  return std::make_unique<CastKernel>(site.op);
}

}  // namespace

KernelEntries register_cast() { return {{"Cast", make_cast}}; }

}  // namespace kerf::ops::cpu
