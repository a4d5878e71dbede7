// Slice, Pad and Compress on the CPU: a walk for every combination of the axes' moves.
#include <algorithm>

#include "ops/cpu/element.h"
#include "ops/cpu/number_lanes.h"
#include "ops/cpu/walk.h"
#include "ops/half.h"
#include "ops/kernel.h"
#include "ops/moved.h"

namespace kerf::ops::cpu {
namespace {

void fill(const TensorView& to, double value) {
  const int64_t count = to.elements();
  if (to.dtype == DType::kBool)
    std::fill_n(to.as<uint8_t>(), count, static_cast<uint8_t>(value != 0 ? 1 : 0));
  else if (to.dtype == DType::kFloat16)
    std::fill_n(to.as<uint16_t>(), count, to_float16(static_cast<float>(value)));
  else if (to.dtype == DType::kBFloat16)
    std::fill_n(to.as<uint16_t>(), count, to_bfloat16(static_cast<float>(value)));
  else
    with_number(to.dtype, [&](auto zero) {
      using T = decltype(zero);
      std::fill_n(to.as<T>(), count, converted<T>(value));
    });
}

class MovedKernel final : public PlainKernel {
 public:
  explicit MovedKernel(const KernelSite& site) : fill_(site.as<Moved>().fill()) {
    const auto& op = site.as<Moved>();
    for (size_t i = 0; i < op.axes().size(); ++i)
      axes_.push_back(op.local_moves(static_cast<int>(i), site.iterations.axes[i]));
  }

  void forward(const Call& call) override {
    const TensorView& x = call.inputs[0];
    const TensorView& y = call.outputs[0];
    if (moved_elements(x.shape, y.shape) < y.elements()) fill(y, fill_);
    for_walks(x.shape, y.shape,
              [&](const Walk& walk) { copy(walk, x.data, y.data, size_of(x.dtype)); });
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    for (const GradientTarget& target : targets) {
      if (!target.accumulate) std::fill_n(target.to.f32(), target.to.elements(), 0.0F);
      for_walks(target.to.shape, dy.shape,
                [&](const Walk& walk) { add(walk.turned(), dy.f32(), target.to.f32()); });
    }
  }

 private:
  // Of the output, what the moves reach.
  int64_t moved_elements(const Shape& x, const Shape& y) const {
    int64_t elements = 1;
    for (int i = 0; i < y.rank(); ++i) {
      const auto& moves = axes_[static_cast<size_t>(i)];
      int64_t count = moves.empty() ? std::min(x[i], y[i]) : 0;
      for (const AxisMove& move : moves) count += move.count;
      elements *= count;
    }
    return elements;
  }

  // Calls visit(a walk from the input to the output) for all that moves.
  template <class Visit>
  void for_walks(const Shape& x, const Shape& y, const Visit& visit) const {
    if (x.elements() == 0 || y.elements() == 0) return;
    const auto from = strides_of(x);
    const auto to = strides_of(y);
    const auto go_on = [&](const auto& self, const Walk& walk, int axis) -> void {
      if (axis == y.rank()) return visit(walk);
      const auto i = static_cast<size_t>(axis);
      const auto with = [&](const AxisMove& move) {
        Walk more = walk;
        more.start(move.from * from[i], move.to * to[i]);
        more.add({move.count, move.step * from[i], to[i]});
        if (!more.empty()) self(self, more, axis + 1);
      };
      if (axes_[i].empty()) return with({0, 0, std::min(x[axis], y[axis]), 1});
      for (const AxisMove& move : axes_[i]) with(move);
    };
    go_on(go_on, Walk(), 0);
  }

  double fill_;
  std::vector<std::vector<AxisMove>> axes_;  // of the local tensors
};

}  // namespace

KernelEntries register_moved() {
  KernelEntries entries;
  for (const char* name : {"Compress", "Pad", "Slice"})
    entries.push_back({.op = name, .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
                         return std::make_unique<MovedKernel>(site);
                       }});
  return entries;
}

}  // namespace kerf::ops::cpu
