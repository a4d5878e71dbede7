// SumLoss on a GPU: summed in double.
#include "ops/cuda/bodies.cuh"
#include "ops/cuda/broadcast.cuh"
#include "ops/cuda/pieced_sum.cuh"

namespace kerf::ops::cuda {
namespace {

constexpr int64_t kLeastEntries = 1024;  // entries

struct WeightedEntry {
  const float* x;
  const float* weights;  // null: 1
  AxisSteps axes;
  KERF_DEVICE double operator()(int64_t i) const {
    const auto entry = static_cast<double>(x[i]);
    return weights == nullptr ? entry : entry * static_cast<double>(weights[axes.operand_at(i)]);
  }
};

struct WeightedSumGradient {
  const float* upstream;  // null: 1
  const float* weights;
  AxisSteps axes;
  double normaliser;
  float* to;
  bool accumulate;
  KERF_DEVICE void operator()(int64_t i) const {
    const double given = upstream == nullptr ? 1.0 : static_cast<double>(*upstream);
    const auto scale = static_cast<float>(given / normaliser);
    put(to + i, accumulate, weights == nullptr ? scale : scale * weights[axes.operand_at(i)]);
  }
};

class SumLossKernel final : public PlainKernel {
 public:
  explicit SumLossKernel(const CudaWorkbench& bench) : bench_(bench) {}

  void forward(const Call& call) override {
    const TensorView& x = call.inputs[0];
    sum_in_pieces(bench_, x.elements(), kLeastEntries,
                  WeightedEntry{x.f32(), weights_of(call), axes_of(call, x.shape)},
                  MeanTo{call.normaliser, call.outputs[0].f32()});
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const float* upstream =
        call.output_gradients.empty() ? nullptr : call.output_gradients[0].f32();
    for (const GradientTarget& target : targets)
      for_each(bench_.queue(), target.to.elements(),
               WeightedSumGradient{upstream, weights_of(call), axes_of(call, target.to.shape),
                                   call.normaliser, target.to.f32(), target.accumulate});
  }

 private:
  static const float* weights_of(const Call& call) {
    return call.inputs.size() > 1 ? call.inputs[1].f32() : nullptr;
  }
  static AxisSteps axes_of(const Call& call, const Shape& x) {
    return weights_of(call) == nullptr ? AxisSteps{} : Broadcast(call.inputs[1].shape, x).all;
  }

  const CudaWorkbench& bench_;
};

}  // namespace

KernelEntries register_sum_loss() {
  return {{.op = "SumLoss", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<SumLossKernel>(workbench_of(site));
           }}};
}

}  // namespace kerf::ops::cuda
