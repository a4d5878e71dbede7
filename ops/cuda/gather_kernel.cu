// Gather on a GPU: rows copied, and added back in ascending order, a column to a thread.
#include "ops/cuda/bodies.cuh"
#include "ops/cuda/cuda_workbench.h"
#include "ops/cuda/index_check.cuh"
#include "ops/cuda/index_table.cuh"
#include "ops/element_size.h"
#include "ops/folded.h"
#include "ops/local_index.h"
#include "ops/operators/gather.h"

namespace kerf::ops::cuda {
namespace {

// The data is [outer, length, inner], the output [outer, picks, inner].
struct Picks {
  IndexView vocabulary;
  Indices indices;
  int64_t count;
  int64_t length;
  int64_t inner;
  // Of the data held here; -1 for a row that is not.
  KERF_DEVICE int64_t row(int64_t pick) const {
    const int64_t index = indices[pick];
    return vocabulary.local(index < 0 ? index + vocabulary.extent : index);
  }
};

template <class T>
struct GatherRows {
  Picks picks;
  const T* data;
  T* y;
  KERF_DEVICE void operator()(int64_t i) const {
    const int64_t column = i % picks.inner;
    const int64_t pick = i / picks.inner % picks.count;
    const int64_t outer = i / picks.inner / picks.count;
    const int64_t row = picks.row(pick);
    y[i] = row < 0 ? T{} : data[(outer * picks.length + row) * picks.inner + column];
  }
};

// Index i is a column of one of the outer tables: nobody else adds to it.
struct ScatterColumn {
  Picks picks;
  const float* dy;
  float* to;
  KERF_DEVICE void operator()(int64_t i) const {
    const int64_t column = i % picks.inner;
    const int64_t outer = i / picks.inner;
    for (int64_t pick = 0; pick < picks.count; ++pick) {
      const int64_t row = picks.row(pick);
      if (row >= 0)
        to[(outer * picks.length + row) * picks.inner + column] +=
            dy[(outer * picks.count + pick) * picks.inner + column];
    }
  }
};

class GatherKernel final : public PlainKernel {
 public:
  explicit GatherKernel(const KernelSite& site)
      : queue_(queue_of(site)),
        axis_(site.as<Gather>().axis()),
        vocabulary_(queue_, site.iterations.axes[vocabulary_axis(site)],
                    extent_of(site, vocabulary_axis(site))),
        report_(workbench_of(site),
                [&op = site.op, box = site.iterations, largest = site.largest, axis = axis_](
                    const Fault& fault) { refuse_index(op, box, largest, axis, fault); }) {}

  void forward(const Call& call) override {
    const int64_t rows = vocabulary_.extent();
    if (vocabulary_.has_first()) check_indices(queue_, report_, call, call.inputs[1], -rows, rows);
    const TensorView& data = call.inputs[0];
    const TensorView& y = call.outputs[0];
    with_element(y.dtype, [&](auto zero) {
      using T = decltype(zero);
      for_each(queue_, y.elements(),
               GatherRows<T>{picks_of(call, data.shape), data.as<T>(), y.as<T>()});
    });
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      if (!target.accumulate) clear(queue_, target.to);
      const Folded table = fold(target.to.shape, axis_);
      for_each(queue_, table.outer * table.inner,
               ScatterColumn{picks_of(call, target.to.shape), call.output_gradients[0].f32(),
                             target.to.f32()});
    }
  }

 private:
  static size_t vocabulary_axis(const KernelSite& site) {
    return static_cast<size_t>(site.as<Gather>().vocabulary());
  }
  static int64_t extent_of(const KernelSite& site, size_t axis) {
    return concrete_extent(site.op.space().axes[axis].extent, site.largest);
  }

  Picks picks_of(const Call& call, const Shape& data) const {
    const Folded table = fold(data, axis_);
    return {vocabulary_.view(), indices_of(call.inputs[1]), call.inputs[1].elements(), table.length,
            table.inner};
  }

  // The first axis of the indices is iteration `first`.
  [[noreturn]] static void refuse_index(const BoundOperator& op, const Box& box, int64_t largest,
                                        int first, const Fault& fault) {
    const Shape indices = local_specs(op, box, largest, fault.samples).inputs[1].shape;
    std::vector<int64_t> place(static_cast<size_t>(indices.rank()));
    int64_t left = fault.at;
    for (int i = indices.rank(); i-- > 0; left /= indices[i]) {
      const auto axis = static_cast<size_t>(first + i);
      const int64_t extent = concrete_extent(op.space().axes[axis].extent, largest);
      place[static_cast<size_t>(i)] = LocalIndex(box.axes[axis], extent).global(left % indices[i]);
    }
    const auto vocabulary = static_cast<size_t>(static_cast<const Gather&>(op).vocabulary());
    throw Error(ErrorCode::kUsage,
                format("Gather: the index at [{}] of the micro-batch is {}, but there are {} rows "
                       "to pick from",
                       fmt::join(place, ", "), fault.value,
                       concrete_extent(op.space().axes[vocabulary].extent, largest)));
  }

  const Queue& queue_;
  int axis_;
  IndexTable vocabulary_;
  FaultReport report_;
};

}  // namespace

KernelEntries register_gather() {
  return {{.op = "Gather", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<GatherKernel>(site);
           }}};
}

}  // namespace kerf::ops::cuda
