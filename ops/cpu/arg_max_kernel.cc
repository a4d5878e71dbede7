// ArgMax and ArgMin on the CPU: row after row compared with the best of those before.
#include <algorithm>

#include "ops/cpu/element.h"
#include "ops/folded.h"
#include "ops/kernel.h"
#include "ops/operators/arg_max.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

class ArgMaxKernel final : public PlainKernel {
 public:
  explicit ArgMaxKernel(const ArgMax& op) : op_(op) {}

  void forward(const Call& call) override {
    const TensorView& x = call.inputs[0];
    if (x.elements() == 0) return;
    const Folded folded = fold(x.shape, op_.axis());
    const int64_t table = folded.length * folded.inner;
    with_number(x.dtype, [&](auto zero) {
      using T = decltype(zero);
      simd::parallel_pieces(
          folded.outer, 1 + simd::kLeastElements / table, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i)
              pick(x.as<T>() + i * table, folded, call.outputs[0].i64() + i * folded.inner);
          });
    });
  }

 protected:
  void gradient(const Call&, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets)
      if (!target.accumulate) std::fill_n(target.to.f32(), target.to.elements(), 0.0F);
  }

 private:
  // NaN is beyond all others, as NumPy has it.
  template <class T>
  bool beyond(T a, T b) const {
    if (a != a) return b == b || op_.last();
    if (op_.last() && a == b) return true;
    return op_.largest() ? a > b : a < b;
  }

  template <class T>
  void pick(const T* x, const Folded& folded, int64_t* best) const {
    std::fill_n(best, folded.inner, int64_t{0});
    for (int64_t i = 1; i < folded.length; ++i)
      for (int64_t j = 0; j < folded.inner; ++j)
        if (beyond(x[i * folded.inner + j], x[best[j] * folded.inner + j])) best[j] = i;
  }

  const ArgMax& op_;
};

std::unique_ptr<Kernel> make_arg_max(const KernelSite& site) {
  return std::make_unique<ArgMaxKernel>(site.as<ArgMax>());
}

}  // namespace

KernelEntries register_arg_max() { return {{"ArgMax", make_arg_max}, {"ArgMin", make_arg_max}}; }

}  // namespace kerf::ops::cpu
