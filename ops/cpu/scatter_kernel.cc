// ScatterElements and ScatterND on the CPU: updates one after another, in their order.
#include <algorithm>
#include <cstring>

#include "ops/cpu/element.h"
#include "ops/cpu/indices.h"
#include "ops/cpu/walk.h"
#include "ops/element_size.h"
#include "ops/number.h"
#include "ops/operators/scatter.h"
#include "ops/workspace.h"

namespace kerf::ops::cpu {
namespace {

template <class T>
void apply(ScatterRule rule, T& to, T update) {
  switch (rule) {
    case ScatterRule::kNone:
      to = update;
      return;
    case ScatterRule::kAdd:
      to = number::sum(to, update);
      return;
    case ScatterRule::kMul:
      to = number::product(to, update);
      return;
    case ScatterRule::kMax:
      to = number::larger(update, to);  // NaN stays
      return;
    case ScatterRule::kMin:
      to = number::smaller(update, to);
      return;
  }
}

// The targets that a site holds, for what both operators have in common: they update slices of
// some elements at a time.
class Targets {
 public:
  explicit Targets(const KernelSite& site) : op_(site.op.name()) {
    for (const int axis : site.as<Scatter>().targets()) held_.push_back(local_axis(site, axis));
  }
  int64_t count() const { return static_cast<int64_t>(held_.size()); }
  // The held index along target `k` of what the index at `i` says; -1 where it is not held.
  int64_t place(const TensorView& indices, int64_t i, int64_t k) const {
    const LocalIndex& held = held_[static_cast<size_t>(k)];
    return held.local(checked_index(op_, indices, i, held.extent()));
  }

 private:
  std::string_view op_;
  std::vector<LocalIndex> held_;
};

enum class Order : uint8_t { kForwards, kBackwards };

// ScatterElements: one element each.
struct ElementSlices {
  explicit ElementSlices(const KernelSite& site)
      : targets(site), axis(site.as<ScatterElements>().axis()) {}

  // Calls visit(place among the updates, place in the output, elements) for what is held.
  template <class Visit>
  void for_each(const TensorView& indices, const Shape& output, Order order,
                const Visit& visit) const {
    if (indices.elements() == 0) return;
    const auto strides = strides_of(output);
    const auto own = strides_of(indices.shape);
    const int64_t sign = order == Order::kForwards ? 1 : -1;
    Walk walk;  // from the indices to the output but for the axis; backwards from the end
    for (int i = 0; i < output.rank(); ++i) {
      const auto at = static_cast<size_t>(i);
      const int64_t to = i == axis ? 0 : strides[at];
      const int64_t last = indices.shape[i] - 1;
      if (order == Order::kBackwards) walk.start(last * own[at], last * to);
      walk.add({indices.shape[i], sign * own[at], sign * to});
    }
    WalkPlace place(walk, 0);
    for (int64_t i = indices.elements(); i > 0; --i, place.next()) {
      const int64_t row = targets.place(indices, place.from(), 0);
      if (row >= 0) visit(place.from(), place.to() + row * strides[static_cast<size_t>(axis)], 1);
    }
  }

  Targets targets;
  int axis;
};

// ScatterND: what no index points along.
struct TupleSlices {
  explicit TupleSlices(const KernelSite& site) : targets(site) {}

  template <class Visit>
  void for_each(const TensorView& indices, const Shape& output, Order order,
                const Visit& visit) const {
    const int64_t tuple = targets.count();
    int64_t width = 1;
    for (auto i = static_cast<int>(tuple); i < output.rank(); ++i) width *= output[i];
    const int64_t count = width == 0 ? 0 : indices.elements() / tuple;
    for (int64_t step = 0; step < count; ++step) {
      const int64_t i = order == Order::kForwards ? step : count - 1 - step;
      int64_t slice = 0;
      for (int64_t k = 0; k < tuple && slice >= 0; ++k) {
        const int64_t at = targets.place(indices, i * tuple + k, k);
        slice = at < 0 ? -1 : slice * output[static_cast<int>(k)] + at;
      }
      if (slice >= 0) visit(i * width, slice * width, width);
    }
  }

  Targets targets;
};

template <class Slices>
class ScatterKernel final : public PlainKernel {
 public:
  explicit ScatterKernel(const KernelSite& site)
      : rule_(site.as<Scatter>().rule()), slices_(site) {}

  void forward(const Call& call) override {
    const TensorView& y = call.outputs[0];
    if (y.data != call.inputs[0].data && y.bytes() > 0)
      std::memcpy(y.data, call.inputs[0].data, y.bytes());
    const auto update = [&](auto zero) {
      using T = decltype(zero);
      slices_.for_each(call.inputs[1], y.shape, Order::kForwards,
                       [&](int64_t from, int64_t to, int64_t width) {
                         const T* updates = call.inputs[2].template as<T>() + from;
                         for (int64_t j = 0; j < width; ++j)
                           apply(rule_, y.template as<T>()[to + j], updates[j]);
                       });
    };
    if (rule_ == ScatterRule::kNone)
      with_element(y.dtype, update);
    else
      with_number(y.dtype, update);
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets)
      if (target.input == 0)
        data_gradient(call, target);
      else
        updates_gradient(call, target);
  }

 private:
  // What an update took the place of has none.
  void data_gradient(const Call& call, const GradientTarget& target) const {
    const TensorView& dy = call.output_gradients[0];
    float* to = target.to.f32();
    const bool replaced = rule_ == ScatterRule::kNone;
    uint8_t* flags = replaced ? cleared_flags(call, dy.elements()) : nullptr;
    if (replaced)
      slices_.for_each(
          call.inputs[1], dy.shape, Order::kForwards,
          [&](int64_t, int64_t at, int64_t width) { std::fill_n(flags + at, width, uint8_t{1}); });
    for (int64_t i = 0; i < dy.elements(); ++i) {
      const float term = replaced && flags[i] != 0 ? 0 : dy.f32()[i];
      to[i] = target.accumulate ? to[i] + term : term;
    }
  }

  // Only the last of several that take one place has one.
  void updates_gradient(const Call& call, const GradientTarget& target) const {
    const TensorView& dy = call.output_gradients[0];
    float* to = target.to.f32();
    if (!target.accumulate) std::fill_n(to, target.to.elements(), 0.0F);
    const bool replaced = rule_ == ScatterRule::kNone;
    uint8_t* flags = replaced ? cleared_flags(call, dy.elements()) : nullptr;
    slices_.for_each(call.inputs[1], dy.shape, replaced ? Order::kBackwards : Order::kForwards,
                     [&](int64_t from, int64_t at, int64_t width) {
                       for (int64_t j = 0; j < width; ++j) {
                         const bool taken = replaced && flags[at + j] != 0;
                         if (replaced) flags[at + j] = 1;
                         if (!taken) to[from + j] += dy.f32()[at + j];
                       }
                     });
  }

  static uint8_t* cleared_flags(const Call& call, int64_t count) {
    auto* flags = Workspace(call.workspace).take<uint8_t>(count);
    std::fill_n(flags, count, static_cast<uint8_t>(0));
    return flags;
  }

  ScatterRule rule_;
  Slices slices_;
};

template <class Slices>
std::unique_ptr<Kernel> make_scatter(const KernelSite& site) {
  return std::make_unique<ScatterKernel<Slices>>(site);
}

size_t scatter_workspace(const BoundOperator& bound, const LocalSpecs& local, int) {
  const bool wants = bound.inputs()[0].wants_gradient || bound.inputs()[2].wants_gradient;
  const bool replaces = static_cast<const Scatter&>(bound).rule() == ScatterRule::kNone;
  return wants && replaces ? piece_bytes<uint8_t>(local.outputs[0].shape.elements()) : 0;
}

}  // namespace

KernelEntries register_scatter() {
  return {{"ScatterElements", make_scatter<ElementSlices>, scatter_workspace},
          {"ScatterND", make_scatter<TupleSlices>, scatter_workspace}};
}

}  // namespace kerf::ops::cpu
