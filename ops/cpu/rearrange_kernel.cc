// What puts its input's elements elsewhere, on the CPU: transposes, repetitions, blocks of pixels.
// One walk, which follows from the iterations.
#include <algorithm>
#include <array>

#include "ops/cpu/walk.h"
#include "ops/kernel.h"

namespace kerf::ops::cpu {
namespace {

// By iteration axis.
using Strides = std::array<int64_t, Shape::kMaxRank>;

class RearrangeKernel final : public PlainKernel {
 public:
  explicit RearrangeKernel(const KernelSite& site) : op_(site.op), box_(site.iterations) {
    KERF_CHECK(op_.space().axes.size() <= Strides().size(), "{} has {} iteration axes", op_.name(),
               op_.space().axes.size());
  }

  void forward(const Call& call) override {
    const TensorView& x = call.inputs[0];
    copy(walk(call.samples), x.data, call.outputs[0].data, size_of(x.dtype));
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    const Walk back = walk(call.samples).turned();
    const bool repeats =
        std::any_of(back.begin(), back.end(), [](const WalkAxis& axis) { return axis.to == 0; });
    for (const GradientTarget& target : targets) {
      if (!target.accumulate && !repeats && !back.empty()) {
        copy(back, dy.data, target.to.data, sizeof(float));
        continue;
      }
      if (!target.accumulate) std::fill_n(target.to.f32(), target.to.elements(), 0.0F);
      add(back, dy.f32(), target.to.f32());
    }
  }

 private:
  int64_t extent(int axis, int64_t samples) const {
    const auto i = static_cast<size_t>(axis);
    return clipped_size(box_.axes[i], concrete_extent(op_.space().axes[i].extent, samples));
  }

  // How far apart neighbours along each iteration axis lie in the local operand; 0 along those that
  // it lacks.
  Strides strides(const OperandMap& map, int64_t samples) const {
    Strides strides{};
    int64_t step = 1;
    for (auto own = map.axes.rbegin(); own != map.axes.rend(); ++own)
      for (auto axis = own->axes.rbegin(); axis != own->axes.rend(); ++axis) {
        strides[static_cast<size_t>(*axis)] = step;
        step *= extent(*axis, samples);
      }
    return strides;
  }

  // From the input to the output, in the output's order.
  Walk walk(int64_t samples) const {
    const IterationSpace& space = op_.space();
    const Strides from = strides(space.inputs[0], samples);
    const Strides to = strides(space.outputs[0], samples);
    Walk walk;
    for (const OperandAxis& own : space.outputs[0].axes)
      for (const int axis : own.axes)
        walk.add({extent(axis, samples), from[static_cast<size_t>(axis)],
                  to[static_cast<size_t>(axis)]});
    return walk;
  }

  const BoundOperator& op_;
  Box box_;
};

}  // namespace

KernelEntries register_rearrange() {
  KernelEntries entries;
  for (const char* name : {"DepthToSpace", "Expand", "SpaceToDepth", "Tile", "Transpose"})
    entries.push_back({.op = name, .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
                         return std::make_unique<RearrangeKernel>(site);
                       }});
  return entries;
}

}  // namespace kerf::ops::cpu
