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
    for_rms_rows(call, [&](int64_t row) {
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
      for_rms_rows(call, [&](int64_t row) {
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
    for (const GradientTarget& target : targets)
      simd::copy_or_add(reinterpret_cast<const float*>(call.handed.data()), target.to.elements(),
                        target.to.f32(), target.accumulate);
  }

 private:
  static int64_t rms_rows(const Call& call) {
    const int64_t length = call.inputs[1].elements();
    return length == 0 ? 0 : call.inputs[0].elements() / length;
  }

  template <class Work>
  static void for_rms_rows(const Call& call, const Work& work) {
    const int64_t least =
        1 + simd::kLeastElements / std::max<int64_t>(1, call.inputs[1].elements());
    simd::parallel_pieces(rms_rows(call), least, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) work(row);
    });
  }

  // Threads take columns; each adds the rows in ascending order.
  static void sum_rows(const Call& call, float* sums) {
    const int64_t length = call.inputs[1].elements();
    const int64_t rows = rms_rows(call);
    std::fill_n(sums, length, 0.0F);
    if (rows == 0) return;
    const auto* inverses = reinterpret_cast<const float*>(call.reserve.data());
    const int64_t least = std::max<int64_t>(16, simd::kLeastElements / rows);
    simd::parallel_pieces(length, least, [&](int64_t begin, int64_t end) {
      for (int64_t row = 0; row < rows; ++row)
        add_scaled_products(call.output_gradients[0].f32() + row * length + begin,
                            call.inputs[0].f32() + row * length + begin, inverses[row], end - begin,
                            sums + begin);
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
