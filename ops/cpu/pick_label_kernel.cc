// PickLabel on the CPU.
#include <algorithm>

#include "ops/folded.h"
#include "ops/kernel.h"
#include "ops/local_index.h"
#include "ops/row_place.h"

namespace kerf::ops::cpu {
namespace {

class PickLabelKernel final : public PlainKernel {
 public:
  explicit PickLabelKernel(const KernelSite& site)
      : op_(site.op), iterations_(site.iterations), classes_(axis_of(site, 1)) {}

  void forward(const Call& call) override {
    const Folded scores = fold(call.inputs[0].shape, 1);
    if (classes_.has_first()) check(call);
    const TensorView& picked = call.outputs[0];
    for (int64_t row = 0; row < picked.elements(); ++row) {
      const int64_t at = place(call.inputs[1], scores, row);
      picked.f32()[row] = at < 0 ? 0.0F : call.inputs[0].f32()[at];
    }
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      const Folded scores = fold(target.to.shape, 1);
      if (!target.accumulate) std::fill_n(target.to.f32(), target.to.elements(), 0.0F);
      for (int64_t row = 0; row < scores.outer * scores.inner; ++row) {
        const int64_t at = place(call.inputs[1], scores, row);
        if (at >= 0) target.to.f32()[at] += call.output_gradients[0].f32()[row];
      }
    }
  }

 private:
  static LocalIndex axis_of(const KernelSite& site, int axis) {
    const auto i = static_cast<size_t>(axis);
    return {site.iterations.axes[i], concrete_extent(site.op.space().axes[i].extent, site.largest)};
  }

  // Offset of the row's label among the scores held here; -1 if it is elsewhere.
  int64_t place(const TensorView& labels, const Folded& scores, int64_t row) const {
    const int64_t label = classes_.local(labels.i64()[row]);
    if (label < 0) return -1;
    return (row / scores.inner * scores.length + label) * scores.inner + row % scores.inner;
  }

  void check(const Call& call) const {
    const TensorView& labels = call.inputs[1];
    for (int64_t row = 0; row < labels.elements(); ++row) {
      const int64_t label = labels.i64()[row];
      if (label < 0 || label >= classes_.extent())
        throw Error(ErrorCode::kUsage,
                    format("PickLabel: the label of sample {} of the step is {}, but there are {} "
                           "classes",
                           row_place(iterations_, labels.shape,
                                     op_.inputs()[1].spec.shape.with_batch(call.samples),
                                     call.first_sample, row),
                           label, classes_.extent()));
    }
  }

  const BoundOperator& op_;
  Box iterations_;
  LocalIndex classes_;
};

}  // namespace

KernelEntries register_pick_label() {
  return {{.op = "PickLabel", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<PickLabelKernel>(site);
           }}};
}

}  // namespace kerf::ops::cpu
