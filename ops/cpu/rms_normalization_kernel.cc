// RMSNormalization on the CPU. With d one by the root of the mean square and g = dY * scale,
//   dX = d * g - X * d^3 * mean(g * X),   dscale = sum of dY * X * d.
#include <cmath>

#include "ops/cpu/normalized_rows.h"
#include "ops/kernel.h"
#include "ops/operators/rms_normalization.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

class RmsNormalizationKernel final : public Kernel {
 public:
  explicit RmsNormalizationKernel(float epsilon) : epsilon_(epsilon) {}

  void forward(const Call& call) override {
    const int64_t length = call.inputs[1].elements();
    auto* reserve = reinterpret_cast<float*>(call.reserve.data());
    for_rows(rows_of(call), length, [&](int64_t row) {
      const float* x = call.inputs[0].f32() + row * length;
      const float square = sum_squares(x, length) / static_cast<float>(length);
      const float inverse = 1.0F / std::sqrt(square + epsilon_);
      scale_row(x, inverse, call.inputs[1].f32(), length, call.outputs[0].f32() + row * length);
      if (reserve != nullptr) reserve[row] = inverse;
    });
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const int64_t length = call.inputs[1].elements();
    const auto* inverses = reinterpret_cast<const float*>(call.reserve.data());
    const float* scale = call.inputs[1].f32();
    for (const GradientTarget& target : targets)
      for_rows(rows_of(call), length, [&](int64_t row) {
        const float* x = call.inputs[0].f32() + row * length;
        const float* dy = call.output_gradients[0].f32() + row * length;
        const float inverse = inverses[row];
        const float mean = sum_scaled_product(dy, scale, x, length) / static_cast<float>(length);
        scaled_row_gradient(dy, scale, inverse, x, -inverse * inverse * inverse * mean, length,
                            target.to.f32() + row * length);
      });
    if (!call.handed.empty()) sum_rows(call, reinterpret_cast<float*>(call.handed.data()));
  }

  void weight_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    take_handed_sums(call, 1, targets);
  }

 private:
  static int64_t rows_of(const Call& call) {
    const int64_t length = call.inputs[1].elements();
    return length == 0 ? 0 : call.inputs[0].elements() / length;
  }

  static void sum_rows(const Call& call, float* sums) {
    const int64_t length = call.inputs[1].elements();
    std::fill_n(sums, length, 0.0F);
    const auto* inverses = reinterpret_cast<const float*>(call.reserve.data());
    for_columns(rows_of(call), length, [&](int64_t row, int64_t begin, int64_t end) {
      const int64_t from = row * length + begin;
      add_scaled_products(call.output_gradients[0].f32() + from, call.inputs[0].f32() + from,
                          inverses[row], end - begin, sums + begin);
    });
  }

  float epsilon_;
};

}  // namespace

KernelEntries register_rms_normalization() {
  return {{"RMSNormalization", [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<RmsNormalizationKernel>(site.as<RmsNormalization>().epsilon());
           }}};
}

}  // namespace kerf::ops::cpu
