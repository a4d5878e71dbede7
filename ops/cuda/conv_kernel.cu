// Conv on a GPU.
#include "ops/cuda/cuda_workbench.h"
#include "ops/cuda/direct_conv.cuh"
#include "ops/operators/conv.h"

namespace kerf::ops::cuda {
namespace {

class ConvKernel final : public PlainKernel {
 public:
  explicit ConvKernel(const KernelSite& site)
      : queue_(queue_of(site)), format_(site.as<Conv>().images()) {
    if (!site.iterations.empty())
      window_ = window_view(site.as<Conv>().local_window(site.iterations));
  }

  void forward(const Call& call) override {
    const TensorView& y = call.outputs[0];
    // The bias is absent, or left to the call that has input channel 0.
    const float* bias = call.inputs.size() > 2 ? call.inputs[2].f32() : nullptr;
    if (y.elements() == 0) return;
    for_each(queue_, y.elements(),
             ConvForward{shape_of(call.inputs[0].shape, call.inputs[1].shape, y.shape),
                         call.inputs[0].f32(), call.inputs[1].f32(), bias, y.f32()});
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    for (const GradientTarget& target : targets)
      if (dy.elements() > 0)
        gradient(call, dy, target);
      else if (!target.accumulate)
        clear(queue_, target.to);
  }

 private:
  // Any shape may be a target's.
  ConvShape shape_of(const Shape& x, const Shape& w, const Shape& y) const {
    const ImageView image = image_view(format_, x);
    const int64_t groups = image.channels / w[1];
    return {window_, image, image_view(format_, y), x[0], w[1], w[0] / groups};
  }

  void gradient(const Call& call, const TensorView& dy, const GradientTarget& target) {
    const int64_t count = target.to.elements();
    float* to = target.to.f32();
    if (target.input == 0) {
      KERF_CHECK(!target.accumulate, "Conv's input is an activation, whose gradient is no sum");
      for_each(queue_, count,
               ConvInputGradient{shape_of(target.to.shape, call.inputs[1].shape, dy.shape),
                                 call.inputs[1].f32(), dy.f32(), to});
    } else if (target.input == 1) {
      reduce_rows(queue_, count,
                  ConvWeightGradient{{},
                                     shape_of(call.inputs[0].shape, target.to.shape, dy.shape),
                                     call.inputs[0].f32(),
                                     dy.f32(),
                                     to,
                                     target.accumulate});
    } else {
      reduce_rows(
          queue_, count,
          ConvBiasGradient{
              {}, image_view(format_, dy.shape), dy.shape[0], dy.f32(), to, target.accumulate});
    }
  }

  const Queue& queue_;
  ImageFormat format_;
  WindowView window_{};
};

}  // namespace

KernelEntries register_conv() {
  return {{.op = "Conv", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<ConvKernel>(site);
           }}};
}

}  // namespace kerf::ops::cuda
