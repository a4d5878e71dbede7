// LayerNormalization on the CPU. With n the normalised X, d its inverse deviation and
// g = dY * Scale,
//   dX = d * (g - mean(g) - n * mean(g * n)),   dScale = sum of dY * n,   dB = sum of dY.
#include <cmath>

#include "ops/cpu/channel_rows.h"
#include "ops/cpu/normalized_rows.h"
#include "ops/kernel.h"
#include "ops/operators/layer_normalization.h"
#include "ops/simd/lanes.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

// dx = dy * scale * inverse + (x - mean) * slope + shift
KERF_CLONES void row_gradient(const float* dy, const float* scale, float inverse, const float* x,
                              float mean, float slope, float shift, int64_t count, float* dx) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i)
    dx[i] = dy[i] * scale[i] * inverse + ((x[i] - mean) * slope + shift);
}

class LayerNormalizationKernel final : public Kernel {
 public:
  explicit LayerNormalizationKernel(float epsilon) : epsilon_(epsilon) {}

  void forward(const Call& call) override {
    const int64_t rows = rows_of(call);
    const int64_t length = call.inputs[1].elements();
    auto* reserve = reinterpret_cast<float*>(call.reserve.data());
    const float* bias = call.inputs.size() > 2 ? call.inputs[2].f32() : nullptr;
    for_rows(rows, length, [&](int64_t row) {
      const float* x = call.inputs[0].f32() + row * length;
      const auto count = static_cast<float>(length);
      const float mean = simd::sum_of(x, length) / count;
      const float variance = sum_row_centred_squares(x, mean, length) / count;
      const float inverse = 1.0F / std::sqrt(variance + epsilon_);
      normalise_row(x, mean, inverse, call.inputs[1].f32(), bias, length,
                    call.outputs[0].f32() + row * length);
      if (reserve != nullptr) reserve[row] = mean;
      if (reserve != nullptr) reserve[rows + row] = inverse;
      put(call, 1, row, mean);
      put(call, 2, row, inverse);
    });
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const int64_t length = call.inputs[1].elements();
    for (const GradientTarget& target : targets)
      if (target.input == 0)
        for_rows(rows_of(call), length,
                 [&](int64_t row) { x_gradient(call, row, target.to.f32() + row * length); });
    if (call.handed.empty()) return;
    sum_rows(call, reinterpret_cast<float*>(call.handed.data()));
  }

  void weight_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    take_handed_sums(call, 1, targets);
  }

 private:
  static int64_t rows_of(const Call& call) {
    const int64_t length = call.inputs[1].elements();
    return length == 0 ? 0 : call.inputs[0].elements() / length;
  }

  static void put(const Call& call, size_t output, int64_t row, float value) {
    if (call.outputs.size() > output && call.outputs[output].data != nullptr)
      call.outputs[output].f32()[row] = value;
  }

  static float given(const Call& call, size_t output, int64_t row) {
    if (call.output_gradients.size() <= output) return 0;
    const TensorView& gradient = call.output_gradients[output];
    return gradient.data == nullptr ? 0 : gradient.f32()[row];
  }

  static void x_gradient(const Call& call, int64_t row, float* dx) {
    const int64_t length = call.inputs[1].elements();
    const auto count = static_cast<float>(length);
    const auto* reserve = reinterpret_cast<const float*>(call.reserve.data());
    const float mean = reserve[row];
    const float inverse = reserve[rows_of(call) + row];
    const float* scale = call.inputs[1].f32();
    const float* x = call.inputs[0].f32() + row * length;
    float shift = given(call, 1, row);
    float slope = -given(call, 2, row) * inverse * inverse * inverse;
    const float* dy = call.output_gradients[0].f32();
    if (dy == nullptr) {
      map_row(x, mean, slope / count, shift / count, length, dx);
      return;
    }
    dy += row * length;
    shift -= inverse * sum_scaled(dy, scale, length);
    slope -= inverse * inverse * inverse * sum_scaled_centred(dy, scale, x, mean, length);
    row_gradient(dy, scale, inverse, x, mean, slope / count, shift / count, length, dx);
  }

  static void sum_rows(const Call& call, float* products) {
    const int64_t length = call.inputs[1].elements();
    const int64_t rows = rows_of(call);
    std::fill_n(products, 2 * length, 0.0F);
    const float* dy = call.output_gradients[0].f32();
    if (dy == nullptr) return;
    const float* x = call.inputs[0].f32();
    const auto* reserve = reinterpret_cast<const float*>(call.reserve.data());
    for_columns(rows, length, [&](int64_t row, int64_t begin, int64_t end) {
      const int64_t from = row * length + begin;
      add_normalised_products(dy + from, x + from, reserve[row], reserve[rows + row], end - begin,
                              products + begin, products + length + begin);
    });
  }

  float epsilon_;
};

}  // namespace

KernelEntries register_layer_normalization() {
  return {
      {.op = "LayerNormalization", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
         return std::make_unique<LayerNormalizationKernel>(site.as<LayerNormalization>().epsilon());
       }}};
}

}  // namespace kerf::ops::cpu
