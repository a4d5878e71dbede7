// CumSum on the CPU: one running sum for each row of the axis.
#include "ops/cpu/element.h"
#include "ops/folded.h"
#include "ops/kernel.h"
#include "ops/number.h"
#include "ops/operators/cum_sum.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

// One table [length, inner]; adds to `y` what is summed where `accumulate`.
template <class T>
void sum_table(const T* x, const Folded& folded, bool exclusive, bool reverse, bool accumulate,
               T* y) {
  for (int64_t j = 0; j < folded.inner; ++j) {
    T sum{};
    for (int64_t step = 0; step < folded.length; ++step) {
      const int64_t i = (reverse ? folded.length - 1 - step : step) * folded.inner + j;
      const T own = x[i];
      const T here = exclusive ? sum : number::sum(sum, own);
      sum = number::sum(sum, own);
      y[i] = accumulate ? number::sum(y[i], here) : here;
    }
  }
}

class CumSumKernel final : public PlainKernel {
 public:
  explicit CumSumKernel(const CumSum& op) : op_(op) {}

  void forward(const Call& call) override {
    with_number(call.inputs[0].dtype, [&](auto zero) {
      run<decltype(zero)>(call.inputs[0], op_.reverse(), false, call.outputs[0]);
    });
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets)
      run<float>(call.output_gradients[0], !op_.reverse(), target.accumulate, target.to);
  }

 private:
  template <class T>
  void run(const TensorView& x, bool reverse, bool accumulate, const TensorView& y) const {
    if (y.elements() == 0) return;
    const Folded folded = fold(y.shape, op_.axis());
    const int64_t table = folded.length * folded.inner;
    simd::parallel_pieces(folded.outer, 1 + simd::kLeastElements / table,
                          [&](int64_t begin, int64_t end) {
                            for (int64_t i = begin; i < end; ++i)
                              sum_table(x.as<T>() + i * table, folded, op_.exclusive(), reverse,
                                        accumulate, y.as<T>() + i * table);
                          });
  }

  const CumSum& op_;
};

}  // namespace

KernelEntries register_cum_sum() {
  return {{.op = "CumSum", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<CumSumKernel>(site.as<CumSum>());
           }}};
}

}  // namespace kerf::ops::cpu
