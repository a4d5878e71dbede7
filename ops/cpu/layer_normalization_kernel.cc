// LayerNormalization on the CPU. With n the normalised X, d its inverse deviation and
// g = dY * Scale,
//   dX = d * (g - mean(g) - n * mean(g * n)),   dScale = sum of dY * n,   dB = sum of dY.
#include <cmath>
#include <cstring>

#include "ops/cpu/channel_rows.h"
#include "ops/kernel.h"
#include "ops/operators/layer_normalization.h"
#include "ops/simd/lanes.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

KERF_CLONES void normalise(const float* x, float mean, float inverse, const float* scale,
                           const float* bias, int64_t count, float* y) {
  if (bias == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) y[i] = (x[i] - mean) * inverse * scale[i];
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = (x[i] - mean) * inverse * scale[i] + bias[i];
}

KERF_CLONES float sum_scaled(const float* dy, const float* scale, int64_t count) {
  return simd::sum_in_lanes(count, [=](int64_t i) { return dy[i] * scale[i]; });
}

KERF_CLONES float sum_scaled_centred(const float* dy, const float* scale, const float* x,
                                     float mean, int64_t count) {
  return simd::sum_in_lanes(count, [=](int64_t i) { return dy[i] * scale[i] * (x[i] - mean); });
}

// dx = dy * scale * inverse + (x - mean) * slope + shift
KERF_CLONES void row_gradient(const float* dy, const float* scale, float inverse, const float* x,
                              float mean, float slope, float shift, int64_t count, float* dx) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i)
    dx[i] = dy[i] * scale[i] * inverse + ((x[i] - mean) * slope + shift);
}

KERF_CLONES void add_row(const float* dy, const float* x, float mean, float inverse, int64_t count,
                         float* products, float* sums) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    products[i] += dy[i] * ((x[i] - mean) * inverse);
    sums[i] += dy[i];
  }
}

class LayerNormalizationKernel final : public Kernel {
 public:
  explicit LayerNormalizationKernel(float epsilon) : epsilon_(epsilon) {}

  void forward(const Call& call) override {
    const int64_t rows = rows_of(call);
    const int64_t length = call.inputs[1].elements();
    if (rows == 0) return;
    auto* reserve = reinterpret_cast<float*>(call.reserve.data());
    const float* bias = call.inputs.size() > 2 ? call.inputs[2].f32() : nullptr;
    simd::parallel_pieces(rows, 1 + simd::kLeastElements / length, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float* x = call.inputs[0].f32() + row * length;
        const auto count = static_cast<float>(length);
        const float mean = simd::sum_of(x, length) / count;
        const float variance = sum_row_centred_squares(x, mean, length) / count;
        const float inverse = 1.0F / std::sqrt(variance + epsilon_);
        normalise(x, mean, inverse, call.inputs[1].f32(), bias, length,
                  call.outputs[0].f32() + row * length);
        if (reserve != nullptr) reserve[row] = mean;
        if (reserve != nullptr) reserve[rows + row] = inverse;
        put(call, 1, row, mean);
        put(call, 2, row, inverse);
      }
    });
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const int64_t length = call.inputs[1].elements();
    for (const GradientTarget& target : targets)
      if (target.input == 0 && length > 0)
        simd::parallel_pieces(rows_of(call), 1 + simd::kLeastElements / length,
                              [&](int64_t begin, int64_t end) {
                                for (int64_t row = begin; row < end; ++row)
                                  x_gradient(call, row, target.to.f32() + row * length);
                              });
    if (call.handed.empty()) return;
    sum_rows(call, reinterpret_cast<float*>(call.handed.data()));
  }

  void weight_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      const int64_t length = target.to.elements();
      const auto* from =
          reinterpret_cast<const float*>(call.handed.data()) + (target.input == 1 ? 0 : length);
      simd::copy_or_add(from, length, target.to.f32(), target.accumulate);
    }
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

  // Threads take columns; each adds the rows in ascending order.
  static void sum_rows(const Call& call, float* products) {
    const int64_t length = call.inputs[1].elements();
    const int64_t rows = rows_of(call);
    std::memset(products, 0, static_cast<size_t>(2 * length) * sizeof(float));
    const float* dy = call.output_gradients[0].f32();
    if (rows == 0 || dy == nullptr) return;
    const float* x = call.inputs[0].f32();
    const auto* reserve = reinterpret_cast<const float*>(call.reserve.data());
    const int64_t least = std::max<int64_t>(16, simd::kLeastElements / rows);
    simd::parallel_pieces(length, least, [&](int64_t begin, int64_t end) {
      for (int64_t row = 0; row < rows; ++row)
        add_row(dy + row * length + begin, x + row * length + begin, reserve[row],
                reserve[rows + row], end - begin, products + begin, products + length + begin);
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
