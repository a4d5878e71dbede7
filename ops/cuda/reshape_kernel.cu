// What reads its input with another shape, on a GPU: nothing where the memory is shared, a copy
// where it is not.
#include "ops/cuda/bodies.cuh"
#include "ops/cuda/cuda_workbench.h"

namespace kerf::ops::cuda {
namespace {

class ReshapeKernel final : public PlainKernel {
 public:
  explicit ReshapeKernel(const Queue& queue) : queue_(queue) {}

  void forward(const Call& call) override { move(call.inputs[0], call.outputs[0]); }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& from = call.output_gradients[0];
    for (const GradientTarget& target : targets)
      if (target.accumulate)
        copy_or_add(queue_, from.f32(), target.to.elements(), target.to.f32(), true);
      else
        move(from, target.to);
  }

 private:
  void move(const TensorView& from, const TensorView& to) const {
    if (from.data != to.data) queue_.runtime_stream().copy(to.data, from.data, to.bytes());
  }

  const Queue& queue_;
};

std::unique_ptr<Kernel> make_reshape(const KernelSite& site) {
  return std::make_unique<ReshapeKernel>(queue_of(site));
}

}  // namespace

KernelEntries register_reshape() {
  KernelEntries entries;
  for (const char* name : {"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
    entries.push_back({.op = name, .make = make_reshape});
  return entries;
}

}  // namespace kerf::ops::cuda
