// Conv on a GPU: by cuDNN, but in groups only where a result has many terms; else, and where cuDNN
// has no engine for the problem, directly.
#include "ops/cuda/cuda_workbench.h"
#include "ops/cuda/direct_conv.cuh"
#include "ops/cuda/dnn_conv.h"
#include "ops/operators/conv.h"
#include "ops/workspace.h"

namespace kerf::ops::cuda {
namespace {

// Terms of a result from which on cuDNN is asked for convolutions in groups. Of the uncut operator,
// so that no cut of it changes who computes.
constexpr int64_t kLeastTermsInGroups = 64;

bool suits_library(const Conv& conv) {
  const Shape& w = conv.inputs()[1].spec.shape;
  if (w.rank() != 4) return false;
  return conv.groups() == 1 || w[1] * w[2] * w[3] >= kLeastTermsInGroups;
}

DnnConvProblem problem_of(ImageFormat format, const Window& window, const Shape& x,
                          const Shape& w) {
  const Shape image = onnx_shape(format, x);
  const int64_t groups = image[1] / w[1];
  return {.format = format,
          .samples = image[0],
          .groups = groups,
          .channels = w[1],
          .filters = w[0] / groups,
          .window = window};
}

struct AddChannelBias {
  ImageView y;
  const float* bias;
  float* to;
  KERF_DEVICE void operator()(int64_t i) const { to[i] += bias[y.place(i).channel]; }
};

class ConvKernel final : public PlainKernel {
 public:
  explicit ConvKernel(const KernelSite& site)
      : queue_(queue_of(site)),
        format_(site.as<Conv>().images()),
        by_library_(suits_library(site.as<Conv>())),
        library_(workbench_of(site)) {
    if (!site.iterations.empty()) window_ = site.as<Conv>().local_window(site.iterations);
  }

  void forward(const Call& call) override {
    const TensorView& x = call.inputs[0];
    const TensorView& w = call.inputs[1];
    const TensorView& y = call.outputs[0];
    // The bias is absent, or left to the call that has input channel 0.
    const float* bias = call.inputs.size() > 2 ? call.inputs[2].f32() : nullptr;
    if (y.elements() == 0) return;
    const DnnConvProblem problem = problem_of(format_, window_, x.shape, w.shape);
    if (!is_librarys(problem))
      return for_each(queue_, y.elements(),
                      ConvForward{shape_of(problem), x.f32(), w.f32(), bias, y.f32()});
    library_.run(problem, {x.f32(), w.f32(), y.f32()}, Workspace(call.workspace));
    if (bias != nullptr)
      for_each(queue_, y.elements(), AddChannelBias{image_view(format_, y.shape), bias, y.f32()});
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    for (const GradientTarget& target : targets)
      if (dy.elements() == 0) {
        if (!target.accumulate) clear(queue_, target.to);
      } else if (target.input == 0) {
        input_gradient_of(call, dy, target);
      } else if (target.input == 1) {
        weight_gradient_of(call, dy, target);
      } else {
        reduce_rows(queue_, target.to.elements(),
                    ConvBiasGradient{{},
                                     image_view(format_, dy.shape),
                                     dy.shape[0],
                                     dy.f32(),
                                     target.to.f32(),
                                     target.accumulate});
      }
  }

 private:
  bool is_librarys(const DnnConvProblem& problem) { return by_library_ && library_.has(problem); }

  ConvShape shape_of(const DnnConvProblem& p) const {
    const WindowView window = window_view(p.window);
    const bool last = p.format == ImageFormat::kChannelsLast;
    return {window,
            {p.groups * p.channels, window.rows.input, window.columns.input, last},
            {p.groups * p.filters, window.rows.output, window.columns.output, last},
            p.samples,
            p.channels,
            p.filters};
  }

  void input_gradient_of(const Call& call, const TensorView& dy, const GradientTarget& target) {
    KERF_CHECK(!target.accumulate, "Conv's input is an activation, whose gradient is no sum");
    const TensorView& w = call.inputs[1];
    DnnConvProblem problem = problem_of(format_, window_, target.to.shape, w.shape);
    problem.kind = DnnConvKind::kInputGradient;
    if (!is_librarys(problem))
      return for_each(queue_, target.to.elements(),
                      ConvInputGradient{shape_of(problem), w.f32(), dy.f32(), target.to.f32()});
    library_.run(problem, {target.to.f32(), w.f32(), dy.f32()}, Workspace(call.workspace));
  }

  void weight_gradient_of(const Call& call, const TensorView& dy, const GradientTarget& target) {
    const TensorView& x = call.inputs[0];
    const TensorView& to = target.to;
    DnnConvProblem problem = problem_of(format_, window_, x.shape, to.shape);
    problem.kind = DnnConvKind::kWeightGradient;
    problem.accumulate = target.accumulate;
    if (!is_librarys(problem))
      return reduce_rows(
          queue_, to.elements(),
          ConvWeightGradient{
              {}, shape_of(problem), x.f32(), dy.f32(), to.f32(), target.accumulate});
    library_.run(problem, {x.f32(), to.f32(), dy.f32()}, Workspace(call.workspace));
  }

  const Queue& queue_;
  ImageFormat format_;
  bool by_library_;
  Window window_;
  DnnConv library_;
};

size_t conv_workspace(const BoundOperator& op, const LocalSpecs& local, int) {
  const auto& conv = static_cast<const Conv&>(op);
  if (!suits_library(conv) || local.outputs[0].shape.elements() == 0) return 0;
  return piece_bytes<std::byte>(
      DnnConv::workspace_bytes(problem_of(conv.images(), conv.local_window(local.iterations),
                                          local.inputs[0].shape, local.inputs[1].shape)));
}

}  // namespace

KernelEntries register_conv() {
  return {{.op = "Conv",
           .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<ConvKernel>(site);
           },
           .workspace = conv_workspace}};
}

}  // namespace kerf::ops::cuda
