// Split and Concat on a GPU: tensors that are stretches of a whole along one axis.
#include "ops/cuda/bodies.cuh"
#include "ops/cuda/cuda_workbench.h"
#include "ops/element_size.h"
#include "ops/folded.h"
#include "ops/operators/concat.h"
#include "ops/operators/split.h"

namespace kerf::ops::cuda {
namespace {

// Element i of a part of rows of `width` elements lies in a whole whose rows are `stride` long.
template <class T>
struct MoveStretch {
  T* whole;
  T* part;
  int64_t width;
  int64_t stride;
  bool take;  // the part from the whole
  bool accumulate;
  KERF_DEVICE void operator()(int64_t i) const {
    T& of_whole = whole[i / width * stride + i % width];
    T& to = take ? part[i] : of_whole;
    const T from = take ? of_whole : part == nullptr ? T{} : part[i];
    to = accumulate ? static_cast<T>(to + from) : from;
  }
};

// The indices [begin, begin + extent) of a whole's axis.
struct Stretch {
  int axis = 0;
  int64_t begin = 0;
  int64_t extent = 0;
};

std::vector<Stretch> stretches_of(const std::vector<ValueSpec>& parts, int axis) {
  std::vector<Stretch> stretches;
  int64_t begin = 0;
  for (const ValueSpec& part : parts) {
    stretches.push_back({axis, begin, part.shape[axis]});
    begin += part.shape[axis];
  }
  return stretches;
}

LocalSpecs specs_of(const KernelSite& site) {
  return local_specs(site.op, site.iterations, site.largest, site.largest);
}

class StretchesKernel : public PlainKernel {
 protected:
  StretchesKernel(const Queue& queue, std::vector<Stretch> stretches)
      : queue_(queue), stretches_(std::move(stretches)) {}

  size_t count() const { return stretches_.size(); }
  // The part from the whole, or into it; a part without data counts as zeros.
  void take(const TensorView& whole, size_t part, std::byte* to, bool accumulate) const {
    move(whole, stretches_[part], to, true, accumulate);
  }
  void give(const std::byte* from, size_t part, const TensorView& whole, bool accumulate) const {
    move(whole, stretches_[part], const_cast<std::byte*>(from), false, accumulate);
  }

 private:
  void move(const TensorView& whole, const Stretch& stretch, std::byte* part, bool take,
            bool accumulate) const {
    const Folded folded = fold(whole.shape, stretch.axis);
    const int64_t width = stretch.extent * folded.inner;
    const auto launch = [&](auto zero) {
      using T = decltype(zero);
      for_each(
          queue_, folded.outer * width,
          MoveStretch<T>{whole.as<T>() + stretch.begin * folded.inner, reinterpret_cast<T*>(part),
                         width, folded.length * folded.inner, take, accumulate});
    };
    if (accumulate)
      launch(float{});
    else
      with_element(whole.dtype, launch);
  }

  const Queue& queue_;
  std::vector<Stretch> stretches_;
};

class SplitKernel final : public StretchesKernel {
 public:
  explicit SplitKernel(const KernelSite& site)
      : StretchesKernel(queue_of(site),
                        stretches_of(specs_of(site).outputs, site.as<Split>().axis())) {}

  void forward(const Call& call) override {
    for (size_t i = 0; i < count(); ++i) take(call.inputs[0], i, call.outputs[i].data, false);
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets)
      for (size_t i = 0; i < count(); ++i)
        give(call.output_gradients[i].data, i, target.to, target.accumulate);
  }
};

class ConcatKernel final : public StretchesKernel {
 public:
  explicit ConcatKernel(const KernelSite& site)
      : StretchesKernel(queue_of(site),
                        stretches_of(specs_of(site).inputs, site.as<Concat>().axis())) {}

  void forward(const Call& call) override {
    for (size_t i = 0; i < count(); ++i) give(call.inputs[i].data, i, call.outputs[0], false);
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets)
      take(call.output_gradients[0], static_cast<size_t>(target.input), target.to.data,
           target.accumulate);
  }
};

}  // namespace

KernelEntries register_stretches() {
  return {{.op = "Split",
           .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<SplitKernel>(site);
           }},
          {.op = "Concat", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<ConcatKernel>(site);
           }}};
}

}  // namespace kerf::ops::cuda
