// PickLabel on a GPU.
#include "ops/cuda/bodies.cuh"
#include "ops/cuda/cuda_workbench.h"
#include "ops/cuda/index_check.cuh"
#include "ops/cuda/index_table.cuh"
#include "ops/folded.h"
#include "ops/local_index.h"
#include "ops/row_place.h"

namespace kerf::ops::cuda {
namespace {

// Where the label of a row lies among the scores held here, [outer, length, inner].
struct LabelPlaces {
  IndexView classes;
  const int64_t* labels;
  int64_t length;
  int64_t inner;
  // -1 if it is elsewhere.
  KERF_DEVICE int64_t at(int64_t row) const {
    const int64_t label = classes.local(labels[row]);
    return label < 0 ? -1 : (row / inner * length + label) * inner + row % inner;
  }
};

struct Pick {
  LabelPlaces places;
  const float* scores;
  float* picked;
  KERF_DEVICE void operator()(int64_t row) const {
    const int64_t at = places.at(row);
    picked[row] = at < 0 ? 0.0F : scores[at];
  }
};

struct AddPicked {
  LabelPlaces places;
  const float* dy;
  float* to;
  KERF_DEVICE void operator()(int64_t row) const {
    const int64_t at = places.at(row);
    if (at >= 0) to[at] += dy[row];
  }
};

class PickLabelKernel final : public PlainKernel {
 public:
  explicit PickLabelKernel(const KernelSite& site)
      : queue_(queue_of(site)),
        classes_(queue_, site.iterations.axes[1],
                 concrete_extent(site.op.space().axes[1].extent, site.largest)),
        report_(workbench_of(site),
                [&op = site.op, box = site.iterations, largest = site.largest](const Fault& fault) {
                  refuse_label(op, box, largest, fault);
                }) {}

  void forward(const Call& call) override {
    const Folded scores = fold(call.inputs[0].shape, 1);
    if (classes_.has_first())
      check_indices(queue_, report_, call, call.inputs[1], 0, classes_.extent());
    for_each(queue_, call.outputs[0].elements(),
             Pick{places_of(call, scores), call.inputs[0].f32(), call.outputs[0].f32()});
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      const Folded scores = fold(target.to.shape, 1);
      if (!target.accumulate) clear(queue_, target.to);
      for_each(queue_, scores.outer * scores.inner,
               AddPicked{places_of(call, scores), call.output_gradients[0].f32(), target.to.f32()});
    }
  }

 private:
  LabelPlaces places_of(const Call& call, const Folded& scores) const {
    return {classes_.view(), call.inputs[1].i64(), scores.length, scores.inner};
  }

  [[noreturn]] static void refuse_label(const BoundOperator& op, const Box& box, int64_t largest,
                                        const Fault& fault) {
    const LocalSpecs local = local_specs(op, box, largest, fault.samples);
    const Shape whole = op.inputs()[1].spec.shape.with_batch(fault.samples);
    throw Error(ErrorCode::kUsage,
                format("PickLabel: the label of sample {} of the step is {}, but there are {} "
                       "classes",
                       row_place(box, local.inputs[1].shape, whole, fault.first_sample, fault.at),
                       fault.value, concrete_extent(op.space().axes[1].extent, largest)));
  }

  const Queue& queue_;
  IndexTable classes_;
  FaultReport report_;
};

}  // namespace

KernelEntries register_pick_label() {
  return {{.op = "PickLabel", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<PickLabelKernel>(site);
           }}};
}

}  // namespace kerf::ops::cuda
