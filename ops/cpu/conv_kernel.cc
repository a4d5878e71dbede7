// Conv on the CPU: few channels by hand, all else by oneDNN.
#include "ops/cpu/direct_conv.h"
#include "ops/cpu/dnnl_conv.h"
#include "ops/kernel.h"
#include "ops/operators/conv.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

ConvProblem problem_of(const Window& window, const Shape& x, const Shape& w) {
  return {x[0], x[1], w[0], x[1] / w[1], window};
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

class ConvKernel final : public PlainKernel {
 public:
  explicit ConvKernel(const KernelSite& site) {
    if (!site.iterations.empty()) window_ = site.as<Conv>().local_window(site.iterations);
  }

  void forward(const Call& call) override {
    const TensorView& x = call.inputs[0];
    const TensorView& w = call.inputs[1];
    // Absent, or left to the call that has input channel 0.
    const float* bias = call.inputs.size() > 2 ? call.inputs[2].f32() : nullptr;
    float* y = call.outputs[0].f32();
    if (call.outputs[0].elements() == 0) return;
    const ConvProblem problem = problem_of(window_, x.shape, w.shape);
    Workspace workspace(call.workspace);
    if (suits_direct_conv(problem))
      direct_conv_forward(problem, x.f32(), w.f32(), bias, y, workspace);
    else
      dnnl_.forward(problem, x.f32(), w.f32(), bias, y, workspace);
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    for (const GradientTarget& target : targets) {
      float* to = target.to.f32();
      if (dy.elements() == 0) {
        if (!target.accumulate) std::fill_n(to, target.to.elements(), 0.0F);
      } else if (target.input == 0) {
        input_gradient_of(call, dy, target);
      } else if (target.input == 1) {
        weight_gradient_of(call, dy, target);
      } else {
        add_bias_gradient(dy, to, target.accumulate);
      }
    }
  }

 private:
  void input_gradient_of(const Call& call, const TensorView& dy, const GradientTarget& target) {
    KERF_CHECK(!target.accumulate, "Conv's input is an activation, whose gradient is no sum");
    const TensorView& w = call.inputs[1];
    const ConvProblem problem = problem_of(window_, target.to.shape, w.shape);
    Workspace workspace(call.workspace);
    if (suits_direct_conv(problem))
      direct_conv_input_gradient(problem, w.f32(), dy.f32(), target.to.f32(), workspace);
    else
      dnnl_.input_gradient(problem, w.f32(), dy.f32(), target.to.f32(), workspace);
  }

  void weight_gradient_of(const Call& call, const TensorView& dy, const GradientTarget& target) {
    const TensorView& x = call.inputs[0];
    const int64_t count = target.to.elements();
    const ConvProblem problem = problem_of(window_, x.shape, target.to.shape);
    Workspace workspace(call.workspace);
    if (suits_direct_conv(problem)) {
      direct_conv_weight_gradient(problem, x.f32(), dy.f32(), target.to.f32(), target.accumulate,
                                  workspace);
      return;
    }
    // oneDNN's convolution gradients cannot add: made apart first.
    float* to = target.accumulate ? workspace.take<float>(count) : target.to.f32();
    dnnl_.weight_gradient(problem, x.f32(), dy.f32(), to, workspace);
    if (target.accumulate) simd::copy_or_add(to, count, target.to.f32(), true);
  }

  Window window_;
  DnnlConv dnnl_;
};

std::unique_ptr<Kernel> make_conv(const KernelSite& site) {
  return std::make_unique<ConvKernel>(site);
}

size_t workspace(const BoundOperator& op, const LocalSpecs& local, int threads) {
  const Shape& x = local.inputs[0].shape;
  const Shape& w = local.inputs[1].shape;
  if (local.outputs[0].shape.elements() == 0) return 0;
  const Window window = static_cast<const Conv&>(op).local_window(local.iterations);
  const ConvProblem problem = problem_of(window, x, w);
  if (suits_direct_conv(problem)) return direct_conv_workspace_bytes(problem, threads);
  // A gradient that adds is made apart first.
  return piece_bytes<float>(w.elements()) + DnnlConv().workspace_bytes(problem);
}

}  // namespace

KernelEntries register_conv() { return {{"Conv", make_conv, workspace}}; }

}  // namespace kerf::ops::cpu
