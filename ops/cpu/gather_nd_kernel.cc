// GatherND on the CPU: slices copied, and added back in ascending order.
#include <algorithm>
#include <cstring>

#include "ops/cpu/indices.h"
#include "ops/operators/gather_nd.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

class GatherNDKernel final : public PlainKernel {
 public:
  explicit GatherNDKernel(const KernelSite& site) : op_(site.as<GatherND>()) {}

  void forward(const Call& call) override {
    const Slices s(op_, call.inputs[0].shape, call.inputs[1]);
    const auto bytes = static_cast<size_t>(s.width) * size_of(call.inputs[0].dtype);
    if (bytes == 0) return;
    simd::parallel_pieces(
        s.count, 1 + simd::kLeastElements / s.width, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i)
            std::memcpy(call.outputs[0].data + static_cast<size_t>(i) * bytes,
                        call.inputs[0].data + static_cast<size_t>(s.place(i)) * bytes, bytes);
        });
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      float* to = target.to.f32();
      if (!target.accumulate) std::fill_n(to, target.to.elements(), 0.0F);
      const Slices s(op_, target.to.shape, call.inputs[1]);
      const float* dy = call.output_gradients[0].f32();
      for (int64_t i = 0; s.width > 0 && i < s.count; ++i)
        for (int64_t j = 0, at = s.place(i) * s.width; j < s.width; ++j)
          to[at + j] += dy[i * s.width + j];
    }
  }

 private:
  // What the indices pick: `count` slices of `width` elements.
  struct Slices {
    Slices(const GatherND& op, const Shape& data, const TensorView& tuples)
        : indices(tuples), picked(op.picked()) {
      for (const int64_t extent : picked) area *= extent;
      const auto tuple = static_cast<int64_t>(picked.size());
      count = indices.elements() / tuple;
      int64_t batches = 1;
      for (int i = 0; i < op.batch_axes(); ++i) batches *= data[i];
      per_batch = batches == 0 ? 1 : std::max<int64_t>(1, count / batches);
      for (int i = op.batch_axes() + static_cast<int>(tuple); i < data.rank(); ++i)
        width *= data[i];
      if (data.elements() == 0) width = 0;
    }
    // Of the slice that tuple `i` picks, among all of the data.
    int64_t place(int64_t i) const {
      const auto tuple = static_cast<int64_t>(picked.size());
      int64_t at = 0;
      for (int64_t k = 0; k < tuple; ++k) {
        const int64_t extent = picked[static_cast<size_t>(k)];
        at = at * extent + checked_index("GatherND", indices, i * tuple + k, extent);
      }
      return i / per_batch * area + at;
    }

    const TensorView& indices;
    const std::vector<int64_t>& picked;
    int64_t count = 0;
    int64_t per_batch = 1;
    int64_t area = 1;
    int64_t width = 1;
  };

  const GatherND& op_;
};

}  // namespace

KernelEntries register_gather_nd() {
  return {{.op = "GatherND", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<GatherNDKernel>(site);
           }}};
}

}  // namespace kerf::ops::cpu
