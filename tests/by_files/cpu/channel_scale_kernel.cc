// ChannelScale on the CPU: dX = dY * S, and dS the sum of dY * X over all that has the channel.
#include "ops/kernel.h"
#include "tests/by_files/operators/channel_scale.h"

namespace kerf::ops::cpu {
namespace {

class ChannelScaleKernel final : public PlainKernel {
 public:
  explicit ChannelScaleKernel(int axis) : axis_(axis) {}

  void forward(const Call& call) override {
    scale(call.inputs[0], call.inputs[1].f32(), call.outputs[0].f32());
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    for (const GradientTarget& target : targets) {
      if (target.input == 0)
        scale(dy, call.inputs[1].f32(), target.to.f32());
      else
        sum_products(dy, call.inputs[0].f32(), target);
    }
  }

 private:
  // Calls act(index) for every element of a channel, in ascending order.
  template <class Act>
  void for_each(const Shape& shape, int64_t channel, const Act& act) const {
    int64_t outer = 1;
    int64_t inner = 1;
    for (int i = 0; i < axis_; ++i) outer *= shape[i];
    for (int i = axis_ + 1; i < shape.rank(); ++i) inner *= shape[i];
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i) act((o * shape[axis_] + channel) * inner + i);
  }

  void scale(const TensorView& from, const float* factors, float* to) const {
    for (int64_t c = 0; c < from.shape[axis_]; ++c)
      for_each(from.shape, c, [&](int64_t at) { to[at] = from.f32()[at] * factors[c]; });
  }

  void sum_products(const TensorView& dy, const float* x, const GradientTarget& target) const {
    for (int64_t c = 0; c < dy.shape[axis_]; ++c) {
      float sum = 0;
      for_each(dy.shape, c, [&](int64_t at) { sum += dy.f32()[at] * x[at]; });
      target.to.f32()[c] = target.accumulate ? target.to.f32()[c] + sum : sum;
    }
  }

  int axis_;
};

std::unique_ptr<Kernel> make_channel_scale(const KernelSite& site) {
  return std::make_unique<ChannelScaleKernel>(site.as<ChannelScale>().axis());
}

}  // namespace

KernelEntries register_channel_scale() { return {{"ChannelScale", make_channel_scale}}; }

}  // namespace kerf::ops::cpu
