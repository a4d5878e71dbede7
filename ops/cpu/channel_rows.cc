#include "ops/cpu/channel_rows.h"

#include "ops/simd/lanes.h"

namespace kerf::ops::cpu {

KERF_CLONES float sum_row(const float* x, int64_t count) {
  return simd::sum_in_lanes(count, [=](int64_t i) { return x[i]; });
}

KERF_CLONES float sum_centred(const float* x, float mean, int64_t count) {
  return simd::sum_in_lanes(count, [=](int64_t i) { return x[i] - mean; });
}

KERF_CLONES float sum_centred_squares(const float* x, float mean, int64_t count) {
  return simd::sum_in_lanes(count, [=](int64_t i) { return (x[i] - mean) * (x[i] - mean); });
}

KERF_CLONES float sum_centred_products(const float* dy, const float* x, float mean, int64_t count) {
  return simd::sum_in_lanes(count, [=](int64_t i) { return dy[i] * (x[i] - mean); });
}

KERF_CLONES void scale_centred(const float* x, float mean, float scale, float shift, int64_t count,
                               float* y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = (x[i] - mean) * scale + shift;
}

KERF_CLONES void centred_gradient(const float* dy, float scale, const float* x, float mean,
                                  float slope, float shift, int64_t count, float* dx) {
  if (dy == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) dx[i] = (x[i] - mean) * slope + shift;
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) dx[i] = dy[i] * scale + ((x[i] - mean) * slope + shift);
}

}  // namespace kerf::ops::cpu
