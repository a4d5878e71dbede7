// Gather on the CPU: rows copied, and added back in ascending order.
#include <algorithm>
#include <cstring>

#include "ops/cpu/indices.h"
#include "ops/folded.h"
#include "ops/operators/gather.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

class GatherKernel final : public PlainKernel {
 public:
  explicit GatherKernel(const KernelSite& site)
      : axis_(site.as<Gather>().axis()),
        vocabulary_(local_axis(site, site.as<Gather>().vocabulary())) {
    for (int i = 0; i < site.op.inputs()[1].spec.shape.rank(); ++i)
      rows_.push_back(local_axis(site, axis_ + i));
  }

  // The data is [outer, vocabulary, inner], the output [outer, indices, inner].
  void forward(const Call& call) override {
    if (vocabulary_.has_first()) check(call.inputs[1]);
    const Folded table = fold(call.inputs[0].shape, axis_);
    const TensorView& y = call.outputs[0];
    const int64_t picks = call.inputs[1].elements();
    if (y.elements() == 0) return;
    const int64_t bytes = table.inner * static_cast<int64_t>(size_of(y.dtype));
    simd::parallel_pieces(
        table.outer * picks, 1 + simd::kLeastElements / table.inner,
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t row = local_row(call.inputs[1], i % picks);
            std::byte* to = y.data + i * bytes;
            if (row < 0)
              std::memset(to, 0, static_cast<size_t>(bytes));
            else
              std::memcpy(to, call.inputs[0].data + (i / picks * table.length + row) * bytes,
                          static_cast<size_t>(bytes));
          }
        });
  }

 protected:
  // Threads take columns: each adds all rows to its own, in order.
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      float* to = target.to.f32();
      const int64_t count = target.to.elements();
      if (!target.accumulate) std::fill_n(to, count, 0.0F);
      const int64_t picks = call.inputs[1].elements();
      if (picks == 0 || count == 0) continue;
      const Folded table = fold(target.to.shape, axis_);
      const int64_t least = 1 + simd::kLeastElements / (table.outer * picks);
      simd::parallel_pieces(table.inner, std::max<int64_t>(16, least),
                            [&](int64_t begin, int64_t end) {
                              add_columns(call, table, {begin, end}, to);
                            });
    }
  }

 private:
  // Of the data held here; -1 for a row that is not.
  int64_t local_row(const TensorView& indices, int64_t i) const {
    return vocabulary_.local(wrapped(index_at(indices, i), vocabulary_.extent()));
  }

  void check(const TensorView& indices) const {
    for (int64_t i = 0; i < indices.elements(); ++i) {
      const int64_t index = index_at(indices, i);
      if (index < -vocabulary_.extent() || index >= vocabulary_.extent())
        throw Error(ErrorCode::kUsage,
                    format("Gather: the index at [{}] of the micro-batch is {}, but there are {} "
                           "rows to pick from",
                           fmt::join(place(indices.shape, i), ", "), index, vocabulary_.extent()));
    }
  }

  // Of local index `i`, flattened, within the whole micro-batch's indices.
  std::vector<int64_t> place(const Shape& shape, int64_t i) const {
    std::vector<int64_t> place(rows_.size());
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      place[a] = rows_[a].global(i % shape[axis]);
      i /= shape[axis];
    }
    return place;
  }

  void add_columns(const Call& call, const Folded& table, Range columns, float* to) const {
    const float* dy = call.output_gradients[0].f32() + columns.begin;
    const int64_t picks = call.inputs[1].elements();
    for (int64_t i = 0; i < table.outer * picks; ++i) {
      const int64_t row = local_row(call.inputs[1], i % picks);
      if (row < 0) continue;
      simd::add(dy + i * table.inner, columns.size(),
                to + (i / picks * table.length + row) * table.inner + columns.begin);
    }
  }

  int axis_;
  LocalIndex vocabulary_;
  std::vector<LocalIndex> rows_;  // of each axis of the indices
};

}  // namespace

KernelEntries register_gather() {
  return {{.op = "Gather", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<GatherKernel>(site);
           }}};
}

}  // namespace kerf::ops::cpu
