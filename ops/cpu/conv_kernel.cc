// Conv on the CPU: few channels by hand, all else by oneDNN.
#include "ops/conv.h"
#include "ops/cpu/direct_conv.h"
#include "ops/cpu/dnnl_conv.h"
#include "ops/cpu/kernels.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

ConvProblem problem_of(const WindowOptions& options, const Shape& x, const Shape& w) {
  return {x[0], x[1], w[0], x[1] / w[1], conv_window(options, x, w)};
}

// to[filter] (+)= the sum over samples and space, samples in ascending order.
void add_bias_gradient(const TensorView& dy, float* to, bool accumulate) {
  const int64_t samples = dy.shape[0];
  const int64_t filters = dy.shape[1];
  const int64_t plane = dy.shape[2] * dy.shape[3];
  simd::parallel_pieces(filters, 1 + simd::kLeastElements / (1 + samples * plane),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t f = begin; f < end; ++f) {
                      float sum = 0;
                      for (int64_t n = 0; n < samples; ++n)
                        sum += simd::sum_of(dy.f32() + (n * filters + f) * plane, plane);
                      to[f] = (accumulate ? to[f] : 0.0F) + sum;
                    }
                  });
}

class ConvKernel final : public Kernel {
 public:
  ConvKernel(const WindowOptions& options, runtime::Device& device)
      : options_(options), device_(device) {}

  void forward(const Call& call) override {
    const TensorView& x = call.inputs[0];
    const TensorView& w = call.inputs[1];
    const float* bias = call.inputs.size() > 2 ? call.inputs[2].f32() : nullptr;
    float* y = call.outputs[0].f32();
    if (call.outputs[0].elements() == 0) return;
    const auto problem = problem_of(options_, x.shape, w.shape);
    if (suits_direct_conv(problem))
      direct_conv_forward(problem, x.f32(), w.f32(), bias, y, device_);
    else
      dnnl_.forward(problem, x.f32(), w.f32(), bias, y, device_);
  }

  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const auto& target : targets) {
      if (target.input == 2)
        add_bias_gradient(call.output_gradients[0], target.to.f32(), target.accumulate);
      else
        large_gradient(call, target);
    }
  }

 private:
  void large_gradient(const Call& call, const GradientTarget& target) {
    const TensorView& dy = call.output_gradients[0];
    const int64_t count = target.to.elements();
    if (dy.elements() == 0) {
      if (!target.accumulate) std::fill_n(target.to.f32(), count, 0.0F);
      return;
    }
    const auto problem = problem_of(options_, call.inputs[0].shape, call.inputs[1].shape);
    if (suits_direct_conv(problem)) {
      float* to = target.to.f32();
      if (target.input == 0)
        direct_conv_input_gradient(problem, call.inputs[1].f32(), dy.f32(), to, target.accumulate,
                                   device_);
      else
        direct_conv_weight_gradient(problem, call.inputs[0].f32(), dy.f32(), to, target.accumulate,
                                    device_);
      return;
    }
    runtime::Buffer apart;  // oneDNN's convolution gradients cannot add
    if (target.accumulate) apart = device_.allocate(target.to.bytes());
    float* to = target.accumulate ? reinterpret_cast<float*>(apart.data()) : target.to.f32();
    if (target.input == 0)
      dnnl_.input_gradient(problem, call.inputs[1].f32(), dy.f32(), to, device_);
    else
      dnnl_.weight_gradient(problem, call.inputs[0].f32(), dy.f32(), to, device_);
    if (target.accumulate) simd::copy_or_add(to, count, target.to.f32(), true);
  }

  WindowOptions options_;
  runtime::Device& device_;
  DnnlConv dnnl_;
};

}  // namespace

size_t conv_workspace_bytes(const WindowOptions& options, std::span<const ValueSpec> inputs,
                            int threads) {
  const Shape& x = inputs[0].shape;
  const Shape& w = inputs[1].shape;
  if (x[0] == 0) return 0;
  const auto problem = problem_of(options, x, w);
  if (suits_direct_conv(problem)) return direct_conv_workspace_bytes(problem, threads);
  // A gradient that adds is made apart first.
  const size_t apart = std::max(inputs[0].bytes(0), inputs[1].bytes(0));
  return apart + DnnlConv().workspace_bytes(problem);
}

std::unique_ptr<Kernel> make_conv_kernel(const WindowOptions& options, runtime::Device& device) {
  return std::make_unique<ConvKernel>(options, device);
}

}  // namespace kerf::ops::cpu
