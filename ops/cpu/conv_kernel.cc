// Conv on the CPU: one or two channels by hand, all else by oneDNN.
#include "ops/cpu/channel_rows.h"
#include "ops/cpu/dnnl_conv.h"
#include "ops/cpu/narrow_conv.h"
#include "ops/kernel.h"
#include "ops/operators/conv.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

ConvProblem problem_of(ImageFormat format, const Window& window, const Shape& x, const Shape& w) {
  const Shape image = onnx_shape(format, x);
  return {format, image[0], image[1], w[0], image[1] / w[1], window};
}

class ConvKernel final : public PlainKernel {
 public:
  explicit ConvKernel(const KernelSite& site) : format_(site.as<Conv>().images()) {
    if (!site.iterations.empty()) window_ = site.as<Conv>().local_window(site.iterations);
  }

  void forward(const Call& call) override {
    const TensorView& x = call.inputs[0];
    const TensorView& w = call.inputs[1];
    // Absent, or left to the call that has input channel 0.
    const float* bias = call.inputs.size() > 2 ? call.inputs[2].f32() : nullptr;
    float* y = call.outputs[0].f32();
    if (call.outputs[0].elements() == 0) return;
    const ConvProblem problem = problem_of(format_, window_, x.shape, w.shape);
    Workspace workspace(call.workspace);
    if (suits_narrow_conv(problem))
      narrow_conv_forward(problem, x.f32(), w.f32(), bias, y, workspace);
    else
      dnnl_.forward(problem, x.f32(), w.f32(), bias, y, {call.packed, call.version}, workspace);
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    const GradientTarget* weights = nullptr;
    const GradientTarget* bias = nullptr;
    for (const GradientTarget& target : targets) {
      if (dy.elements() == 0) {
        if (!target.accumulate) std::fill_n(target.to.f32(), target.to.elements(), 0.0F);
      } else if (target.input == 0) {
        input_gradient_of(call, dy, target);
      } else {
        (target.input == 1 ? weights : bias) = &target;
      }
    }
    if (weights != nullptr)
      weight_gradients_of(call, dy, *weights, bias);
    else if (bias != nullptr)
      add_channel_sums(format_, dy, bias->to.f32(), bias->accumulate);
  }

 private:
  void input_gradient_of(const Call& call, const TensorView& dy, const GradientTarget& target) {
    KERF_CHECK(!target.accumulate, "Conv's input is an activation, whose gradient is no sum");
    const TensorView& w = call.inputs[1];
    const ConvProblem problem = problem_of(format_, window_, target.to.shape, w.shape);
    dnnl_.input_gradient(problem, w.f32(), dy.f32(), target.to.f32(), {call.packed, call.version},
                         Workspace(call.workspace));
  }

  // Both from one pass over dy; that of the bias may be missing.
  void weight_gradients_of(const Call& call, const TensorView& dy, const GradientTarget& weights,
                           const GradientTarget* bias) {
    const TensorView& x = call.inputs[0];
    const ConvProblem problem = problem_of(format_, window_, x.shape, weights.to.shape);
    const auto given = [](const GradientTarget* target) {
      return target == nullptr ? ConvGradient{}
                               : ConvGradient{target->to.f32(), target->accumulate};
    };
    Workspace workspace(call.workspace);
    if (suits_narrow_conv(problem))
      return narrow_conv_weight_gradient(problem, x.f32(), dy.f32(), given(&weights), given(bias),
                                         workspace);
    // oneDNN's cannot add: made apart first.
    const auto room = [&](const GradientTarget& target) {
      return target.accumulate ? workspace.take<float>(target.to.elements()) : target.to.f32();
    };
    float* dw = room(weights);
    float* dbias = bias == nullptr ? nullptr : room(*bias);
    dnnl_.weight_gradient(problem, x.f32(), dy.f32(), dw, dbias, workspace);
    if (weights.accumulate) simd::copy_or_add(dw, weights.to.elements(), weights.to.f32(), true);
    if (bias != nullptr && bias->accumulate)
      simd::copy_or_add(dbias, problem.filters, bias->to.f32(), true);
  }

  ImageFormat format_;
  Window window_;
  DnnlConv dnnl_;
};

std::unique_ptr<Kernel> make_conv(const KernelSite& site) {
  return std::make_unique<ConvKernel>(site);
}

ConvProblem problem_of(const BoundOperator& op, const LocalSpecs& local) {
  const auto& conv = static_cast<const Conv&>(op);
  return problem_of(conv.images(), conv.local_window(local.iterations), local.inputs[0].shape,
                    local.inputs[1].shape);
}

size_t conv_packed(const BoundOperator& op, const LocalSpecs& local, int threads, bool gradients) {
  if (local.outputs[0].shape.elements() == 0) return 0;
  const ConvProblem problem = problem_of(op, local);
  return DnnlConv::packed_bytes(problem, threads, !suits_narrow_conv(problem),
                                gradients && op.inputs()[0].in_input_gradient());
}

size_t conv_workspace(const BoundOperator& op, const LocalSpecs& local, int threads) {
  const Shape& w = local.inputs[1].shape;
  if (local.outputs[0].shape.elements() == 0) return 0;
  const ConvProblem problem = problem_of(op, local);
  if (suits_narrow_conv(problem)) {
    const size_t input_gradient =
        op.inputs()[0].in_input_gradient()
            ? DnnlConv::workspace_bytes(problem, threads, DnnlConv::Passes::kInputGradient)
            : 0;
    return std::max(narrow_conv_workspace_bytes(problem, threads), input_gradient);
  }
  // A gradient that adds is made apart first.
  return piece_bytes<float>(w.elements()) + piece_bytes<float>(problem.filters) +
         DnnlConv::workspace_bytes(problem, threads);
}

}  // namespace

KernelEntries register_conv() {
  return {{"Conv", make_conv, conv_workspace, conv_packed},
          {kConvOfVolumes, make_conv, conv_workspace, conv_packed}};
}

}  // namespace kerf::ops::cpu
