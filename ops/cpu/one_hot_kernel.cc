// OneHot on the CPU: all filled with one value, then the other put in its places.
#include <algorithm>
#include <cstring>

#include "ops/cpu/element.h"
#include "ops/cpu/indices.h"
#include "ops/cpu/number_lanes.h"
#include "ops/element_size.h"
#include "ops/folded.h"
#include "ops/operators/one_hot.h"

namespace kerf::ops::cpu {
namespace {

// The place that an index points to along an axis of `extent`, from the end where it is negative;
// out of range where there is none.
template <class Index>
int64_t pointed_place(Index index, int64_t extent) {
  if constexpr (std::is_unsigned_v<Index>)
    return index < static_cast<uint64_t>(extent) ? static_cast<int64_t>(index) : -1;
  else
    return index != index ? -1 : wrapped(converted<int64_t>(index), extent);
}

class OneHotKernel final : public PlainKernel {
 public:
  explicit OneHotKernel(const KernelSite& site)
      : op_(site.as<OneHot>()), depth_(local_axis(site, op_.axis())) {}

  void forward(const Call& call) override {
    with_number(call.inputs[0].dtype, [&](auto index) {
      with_element(call.outputs[0].dtype,
                   [&](auto element) { fill(index, element, call.inputs[0], call.outputs[0]); });
    });
  }

 protected:
  void gradient(const Call&, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets)
      if (!target.accumulate) std::fill_n(target.to.f32(), target.to.elements(), 0.0F);
  }

 private:
  template <class Index, class T>
  void fill(Index, T, const TensorView& indices, const TensorView& y) const {
    T off;
    T on;
    std::memcpy(&off, op_.values().data(), sizeof off);
    std::memcpy(&on, op_.values().data() + sizeof off, sizeof on);
    std::fill_n(y.as<T>(), y.elements(), off);
    if (y.elements() == 0) return;
    const Folded folded = fold(y.shape, op_.axis());
    for (int64_t i = 0; i < indices.elements(); ++i) {
      const int64_t place = depth_.local(pointed_place(indices.as<Index>()[i], depth_.extent()));
      if (place < 0) continue;
      y.as<T>()[(i / folded.inner * folded.length + place) * folded.inner + i % folded.inner] = on;
    }
  }

  const OneHot& op_;
  LocalIndex depth_;
};

}  // namespace

KernelEntries register_one_hot() {
  return {{.op = "OneHot", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<OneHotKernel>(site);
           }}};
}

}  // namespace kerf::ops::cpu
