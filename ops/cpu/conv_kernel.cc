// Conv and FusedConv on the CPU: one or two channels by hand, where nothing follows, all else by
// oneDNN. A FusedConv's normalisation is folded into its weights when those are packed.
#include <cmath>

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

class FusedConvKernel final : public PlainKernel {
 public:
  explicit FusedConvKernel(const KernelSite& site)
      : op_(site.as<FusedConv>()), largest_(site.largest) {
    if (!site.iterations.empty()) window_ = op_.conv().local_window(site.iterations);
  }

  void forward(const Call& call) override {
    const TensorView& y = call.outputs[0];
    const float* added = data(call, FusedConv::kZ);
    if (y.elements() == 0) return;
    if (added != nullptr && added != y.f32()) std::copy_n(added, y.elements(), y.f32());
    const TensorView& x = call.inputs[FusedConv::kX];
    const TensorView& w = call.inputs[FusedConv::kW];
    const ConvProblem problem = fused_problem(op_, window_, largest_, x.shape, w.shape);
    Workspace workspace(call.workspace);
    if (!op_.scales())
      return dnnl_.forward(problem, x.f32(), w.f32(), data(call, FusedConv::kB), y.f32(),
                           {call.packed, call.version}, workspace);
    // The bias lies before the weights.
    auto* bias = reinterpret_cast<float*>(call.packed.data());
    const PackedWeights packed{call.packed.subspan(piece_bytes<float>(problem.filters)),
                               call.version};
    auto* weights = workspace.take<float>(w.elements());
    if (dnnl_.reads_weights(problem, true, packed, workspace)) fold(call, weights, bias);
    dnnl_.forward(problem, x.f32(), weights, bias, y.f32(), packed, workspace);
  }

  // As of Conv, with what follows it.
  static ConvProblem fused_problem(const FusedConv& op, const Window& window, int64_t largest,
                                   const Shape& x, const Shape& w) {
    ConvProblem problem = problem_of(op.conv().images(), window, x, w);
    problem.ending = {op.adds(), op.relu()};
    problem.layout_samples = largest;
    return problem;
  }

 protected:
  void gradient(const Call& /*call*/, std::span<const GradientTarget> targets) override {
    KERF_CHECK(targets.empty(), "nothing is trained through FusedConv");
  }

 private:
  static const float* data(const Call& call, int input) {
    const auto i = static_cast<size_t>(input);
    return i < call.inputs.size() ? call.inputs[i].f32() : nullptr;
  }

  void fold(const Call& call, float* weights, float* bias) const {
    const TensorView& w = call.inputs[FusedConv::kW];
    const int64_t filters = w.shape[0];
    const int64_t each = w.elements() / filters;
    const float* b = data(call, FusedConv::kB);
    for (int64_t o = 0; o < filters; ++o) {
      const auto of = [&](int input) { return double{data(call, input)[o]}; };
      const double scale =
          of(FusedConv::kScale) / std::sqrt(of(FusedConv::kVariance) + op_.epsilon());
      const double before = (b == nullptr ? 0.0 : double{b[o]}) - of(FusedConv::kMean);
      bias[o] = static_cast<float>(before * scale + of(FusedConv::kShift));
      const auto factor = static_cast<float>(scale);
      for (int64_t i = 0; i < each; ++i) weights[o * each + i] = w.f32()[o * each + i] * factor;
    }
  }

  const FusedConv& op_;
  int64_t largest_;
  Window window_;
  DnnlConv dnnl_;
};

std::unique_ptr<Kernel> make_conv(const KernelSite& site) {
  return std::make_unique<ConvKernel>(site);
}

std::unique_ptr<Kernel> make_fused_conv(const KernelSite& site) {
  return std::make_unique<FusedConvKernel>(site);
}

ConvProblem fused_problem(const FusedConv& op, const LocalSpecs& local) {
  const Shape& x = local.inputs[FusedConv::kX].shape;
  return FusedConvKernel::fused_problem(op, op.conv().local_window(local.iterations), x[0], x,
                                        local.inputs[FusedConv::kW].shape);
}

size_t fused_conv_packed(const BoundOperator& bound, const LocalSpecs& local, int threads,
                         bool /*gradients*/) {
  const auto& op = static_cast<const FusedConv&>(bound);
  if (local.outputs[0].shape.elements() == 0) return 0;
  const ConvProblem problem = fused_problem(op, local);
  return (op.scales() ? piece_bytes<float>(problem.filters) : 0) +
         DnnlConv::packed_bytes(problem, threads, /*forward=*/true, /*input_gradient=*/false);
}

size_t fused_conv_workspace(const BoundOperator& bound, const LocalSpecs& local, int threads) {
  const auto& op = static_cast<const FusedConv&>(bound);
  if (local.outputs[0].shape.elements() == 0) return 0;
  const int64_t weights = local.inputs[FusedConv::kW].shape.elements();
  return (op.scales() ? piece_bytes<float>(weights) : 0) +
         DnnlConv::workspace_bytes(fused_problem(op, local), threads, DnnlConv::Passes::kForward);
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
  const size_t apart = local.accumulates
                           ? piece_bytes<float>(w.elements()) + piece_bytes<float>(problem.filters)
                           : 0;
  return apart + DnnlConv::workspace_bytes(problem, threads);
}

}  // namespace

KernelEntries register_conv() {
  return {{"Conv", make_conv, conv_workspace, conv_packed},
          {kConvOfVolumes, make_conv, conv_workspace, conv_packed},
          {"FusedConv", make_fused_conv, fused_conv_workspace, fused_conv_packed}};
}

}  // namespace kerf::ops::cpu
