// ConvTranspose on the CPU, by the convolution that is its mirror: forward is that one's input
// gradient, the input gradient its forward pass, and the weights' gradient the same with the roles
// of both images exchanged.
#include "ops/cpu/channel_rows.h"
#include "ops/cpu/dnnl_conv.h"
#include "ops/kernel.h"
#include "ops/operators/conv_transpose.h"

namespace kerf::ops::cpu {
namespace {

// `w` [C, M/group, ...], `y` the image of M channels.
ConvProblem mirror_of(const ConvTranspose& op, const Shape& w, const Shape& y) {
  const Shape image = onnx_shape(op.images(), y);
  return {op.images(), image[0], image[1], w[0], image[1] / w[1], op.window()};
}

class ConvTransposeKernel final : public PlainKernel {
 public:
  explicit ConvTransposeKernel(const ConvTranspose& op) : op_(op) {}

  void forward(const Call& call) override {
    const TensorView& w = call.inputs[1];
    const TensorView& y = call.outputs[0];
    if (y.elements() == 0) return;
    dnnl_.input_gradient(mirror_of(op_, w.shape, y.shape), w.f32(), call.inputs[0].f32(), y.f32(),
                         {call.packed, call.version}, Workspace(call.workspace));
    // Absent, or left to the call that has input channel 0.
    const float* bias = call.inputs.size() > 2 ? call.inputs[2].f32() : nullptr;
    if (bias == nullptr) return;
    const Channels c = channels_of(y.shape, op_.images());
    for_blocks(c, [&](const ChannelBlock& block) {
      ChannelLine line;
      line.scale.fill(1);
      std::copy_n(bias + block.begin, block.size(), line.shift.begin());
      map_channels(c, block, y.f32(), line, y.f32());
    });
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    for (const GradientTarget& target : targets)
      if (dy.elements() == 0) {
        if (!target.accumulate) std::fill_n(target.to.f32(), target.to.elements(), 0.0F);
      } else if (target.input == 0) {
        const TensorView& w = call.inputs[1];
        dnnl_.forward(mirror_of(op_, w.shape, dy.shape), dy.f32(), w.f32(), nullptr,
                      target.to.f32(), {call.packed, call.version}, Workspace(call.workspace));
      } else if (target.input == 1) {
        weight_gradient_of(call, dy, target);
      } else {
        add_channel_sums(op_.images(), dy, target.to.f32(), target.accumulate);
      }
  }

 private:
  // oneDNN's cannot add: made apart first.
  void weight_gradient_of(const Call& call, const TensorView& dy, const GradientTarget& target) {
    Workspace workspace(call.workspace);
    const TensorView& to = target.to;
    float* dw = target.accumulate ? workspace.take<float>(to.elements()) : to.f32();
    dnnl_.weight_gradient(mirror_of(op_, to.shape, dy.shape), dy.f32(), call.inputs[0].f32(), dw,
                          nullptr, workspace);
    if (target.accumulate) simd::copy_or_add(dw, to.elements(), to.f32(), true);
  }

  const ConvTranspose& op_;
  DnnlConv dnnl_;
};

ConvProblem mirror_of(const BoundOperator& op, const LocalSpecs& local) {
  return mirror_of(static_cast<const ConvTranspose&>(op), local.inputs[1].shape,
                   local.outputs[0].shape);
}

size_t conv_transpose_workspace(const BoundOperator& op, const LocalSpecs& local, int threads) {
  if (local.outputs[0].shape.elements() == 0) return 0;
  const size_t apart = local.accumulates ? piece_bytes<float>(local.inputs[1].shape.elements()) : 0;
  return apart + DnnlConv::workspace_bytes(mirror_of(op, local), threads);
}

size_t conv_transpose_packed(const BoundOperator& op, const LocalSpecs& local, int threads,
                             bool gradients) {
  if (local.outputs[0].shape.elements() == 0) return 0;
  return DnnlConv::packed_bytes(mirror_of(op, local), threads,
                                gradients && op.inputs()[0].in_input_gradient(), true);
}

}  // namespace

KernelEntries register_conv_transpose() {
  return {{"ConvTranspose",
           [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<ConvTransposeKernel>(site.as<ConvTranspose>());
           },
           conv_transpose_workspace, conv_transpose_packed}};
}

}  // namespace kerf::ops::cpu
