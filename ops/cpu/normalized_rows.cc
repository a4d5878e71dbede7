#include "ops/cpu/normalized_rows.h"

#include "ops/simd/lanes.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {

KERF_CLONES float sum_centred_product(const float* dy, const float* x, float mean, int64_t count) {
  return simd::sum_in_lanes(count, [=](int64_t i) { return dy[i] * (x[i] - mean); });
}

KERF_CLONES void map_row_gradient(const float* dy, float scale, const float* x, float mean,
                                  float slope, float shift, int64_t count, float* dx) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) dx[i] = dy[i] * scale + ((x[i] - mean) * slope + shift);
}

KERF_CLONES void scale_row(const float* x, float factor, const float* scale, int64_t count,
                           float* y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] * factor * scale[i];
}

KERF_CLONES float sum_squares(const float* x, int64_t count) {
  return simd::sum_in_lanes(count, [=](int64_t i) { return x[i] * x[i]; });
}

KERF_CLONES float sum_scaled_product(const float* dy, const float* scale, const float* x,
                                     int64_t count) {
  return simd::sum_in_lanes(count, [=](int64_t i) { return dy[i] * scale[i] * x[i]; });
}

KERF_CLONES void scaled_row_gradient(const float* dy, const float* scale, float factor,
                                     const float* x, float slope, int64_t count, float* dx) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) dx[i] = dy[i] * scale[i] * factor + x[i] * slope;
}

KERF_CLONES void add_scaled_products(const float* dy, const float* x, float factor, int64_t count,
                                     float* sums) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) sums[i] += dy[i] * (x[i] * factor);
}

KERF_CLONES void normalise_row(const float* x, float mean, float inverse, const float* scale,
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

KERF_CLONES void add_normalised_products(const float* dy, const float* x, float mean, float inverse,
                                         int64_t count, float* products, float* sums) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    products[i] += dy[i] * ((x[i] - mean) * inverse);
    sums[i] += dy[i];
  }
}

void take_handed_sums(const Call& call, int scale, std::span<const GradientTarget> targets) {
  for (const GradientTarget& target : targets) {
    const int64_t length = target.to.elements();
    const auto* from = reinterpret_cast<const float*>(call.handed.data());
    simd::copy_or_add(target.input == scale ? from : from + length, length, target.to.f32(),
                      target.accumulate);
  }
}

}  // namespace kerf::ops::cpu
