#include "ops/cpu/kernel_work.h"

#include <vector>

namespace kerf::ops::cpu {
namespace {

void run_pass(Kernel& kernel, Pass pass, const Call& call,
              std::span<const GradientTarget> targets) {
  switch (pass) {
    case Pass::kForward:
      return kernel.forward(call);
    case Pass::kInputGradient:
      return kernel.input_gradient(call, targets);
    case Pass::kWeightGradient:
      return kernel.weight_gradient(call, targets);
  }
}

// With lists of its own.
class QueuedKernel final : public runtime::QueuedWork {
 public:
  QueuedKernel(Kernel& kernel, Pass pass, const Call& call, std::span<const GradientTarget> targets)
      : kernel_(kernel),
        pass_(pass),
        call_(call),
        inputs_(call.inputs.begin(), call.inputs.end()),
        outputs_(call.outputs.begin(), call.outputs.end()),
        output_gradients_(call.output_gradients.begin(), call.output_gradients.end()),
        targets_(targets.begin(), targets.end()) {
    call_.inputs = inputs_;
    call_.outputs = outputs_;
    call_.output_gradients = output_gradients_;
  }

  // What a call is given for a pass is what it reads in it.
  void show(runtime::MemoryVisitor& visitor) override {
    const bool forward = pass_ == Pass::kForward;
    const auto show_all = [&](std::vector<TensorView>& views, bool written) {
      for (TensorView& view : views) show(visitor, view, written);
    };
    show_all(inputs_, false);
    show_all(outputs_, forward);
    show_all(output_gradients_, false);
    for (GradientTarget& target : targets_) show(visitor, target.to, true);
    show(visitor, call_.reserve, forward);
    show(visitor, call_.handed, pass_ == Pass::kInputGradient);
    show(visitor, call_.workspace, true);
    show(visitor, call_.packed, true);
  }

  void run() override { run_pass(kernel_, pass_, call_, targets_); }

 private:
  static std::byte* shown(runtime::MemoryVisitor& visitor, std::byte* data, size_t bytes,
                          bool written) {
    runtime::Memory<std::byte> to_write{data, bytes};
    runtime::Memory<const std::byte> to_read{data, bytes};
    if (written)
      visitor.visit(to_write);
    else
      visitor.visit(to_read);
    return written ? to_write.data : const_cast<std::byte*>(to_read.data);
  }
  static void show(runtime::MemoryVisitor& visitor, TensorView& view, bool written) {
    view.data = shown(visitor, view.data, view.data == nullptr ? 0 : view.bytes(), written);
  }
  static void show(runtime::MemoryVisitor& visitor, std::span<std::byte>& bytes, bool written) {
    bytes = {shown(visitor, bytes.data(), bytes.size(), written), bytes.size()};
  }

  Kernel& kernel_;
  const Pass pass_;
  Call call_;
  std::vector<TensorView> inputs_, outputs_, output_gradients_;
  std::vector<GradientTarget> targets_;
};

}  // namespace

void KernelWork::run() { run_pass(kernel_, pass_, call_, targets_); }

std::unique_ptr<runtime::QueuedWork> KernelWork::queued() const {
  return std::make_unique<QueuedKernel>(kernel_, pass_, call_, targets_);
}

}  // namespace kerf::ops::cpu
