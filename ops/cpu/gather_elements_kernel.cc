// GatherElements on the CPU: one element after another, and added back in ascending order.
#include <algorithm>

#include "ops/cpu/indices.h"
#include "ops/cpu/walk.h"
#include "ops/element_size.h"
#include "ops/operators/gather_elements.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

class GatherElementsKernel final : public PlainKernel {
 public:
  explicit GatherElementsKernel(const KernelSite& site)
      : axis_(site.as<GatherElements>().axis()),
        vocabulary_(local_axis(site, site.as<GatherElements>().vocabulary())) {}

  void forward(const Call& call) override {
    const TensorView& data = call.inputs[0];
    const TensorView& indices = call.inputs[1];
    const TensorView& y = call.outputs[0];
    if (vocabulary_.has_first())
      for (int64_t i = 0; i < indices.elements(); ++i)
        (void)checked_index("GatherElements", indices, i, vocabulary_.extent());
    with_element(y.dtype, [&](auto zero) {
      using T = decltype(zero);
      const Rows rows = rows_of(data.shape, y.shape);
      simd::parallel_pieces(y.elements(), simd::kLeastElements, [&](int64_t begin, int64_t end) {
        for_each(rows, indices, begin, end, [&](int64_t i, int64_t from) {
          y.as<T>()[i] = from < 0 ? T{} : data.as<T>()[from];
        });
      });
    });
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const TensorView& dy = call.output_gradients[0];
    for (const GradientTarget& target : targets) {
      float* to = target.to.f32();
      if (!target.accumulate) std::fill_n(to, target.to.elements(), 0.0F);
      for_each(rows_of(target.to.shape, dy.shape), call.inputs[1], 0, dy.elements(),
               [&](int64_t i, int64_t from) {
                 if (from >= 0) to[from] += dy.f32()[i];
               });
    }
  }

 private:
  // Of the data, but for the picked axis, to the output; and how far apart picks lie.
  struct Rows {
    Walk walk;
    int64_t stride = 1;
  };
  Rows rows_of(const Shape& data, const Shape& y) const {
    const auto from = strides_of(data);
    const auto to = strides_of(y);
    Rows rows{.walk = {}, .stride = from[static_cast<size_t>(axis_)]};
    for (int i = 0; i < y.rank(); ++i) {
      const auto at = static_cast<size_t>(i);
      rows.walk.add({y[i], i == axis_ ? 0 : from[at], to[at]});
    }
    return rows;
  }

  // Calls visit(element of the output, element of the data or -1 where it is not held).
  template <class Visit>
  void for_each(const Rows& rows, const TensorView& indices, int64_t begin, int64_t end,
                const Visit& visit) const {
    if (begin == end) return;
    WalkPlace place(rows.walk, begin);
    for (int64_t i = begin; i < end; ++i, place.next()) {
      const int64_t row = vocabulary_.local(wrapped(index_at(indices, i), vocabulary_.extent()));
      visit(i, row < 0 ? row : place.from() + row * rows.stride);
    }
  }

  int axis_;
  LocalIndex vocabulary_;
};

}  // namespace

KernelEntries register_gather_elements() {
  return {{.op = "GatherElements", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<GatherElementsKernel>(site);
           }}};
}

}  // namespace kerf::ops::cpu
