#include "ops/cpu/attention_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/simd/exponential.h"
#include "ops/simd/lanes.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

}  // namespace

KERF_CLONES ScoreSum weights_of_scores(float* scores, int64_t count) {
  const float most = simd::largest_in_lanes(scores, count);
  if (most == kNothing) {
    std::fill_n(scores, count, 0.0F);
    return {kNothing, 0};
  }
  simd::change_in_lanes(scores, count, [=](float x) { return simd::exponential(x - most); });
  const float sum = simd::sum_in_lanes(count, [=](int64_t i) { return scores[i]; });
  const float share = 1.0F / sum;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) scores[i] *= share;
  return {most, share};
}

KERF_CLONES void weights_again(const ScoreSum& sum, int64_t count, float* scores) {
  if (sum.sees_nothing()) {
    std::fill_n(scores, count, 0.0F);
    return;
  }
  simd::change_in_lanes(scores, count,
                        [=](float x) { return simd::exponential(x - sum.largest) * sum.share; });
}

KERF_CLONES void score_gradients(const float* weights, int64_t count, float* gradients) {
  const float sum = simd::sum_in_lanes(count, [=](int64_t i) { return weights[i] * gradients[i]; });
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) gradients[i] = weights[i] * (gradients[i] - sum);
}

KERF_CLONES void cap_scores(float cap, int64_t count, float* scores, float* slopes) {
  simd::change_in_lanes(scores, count, [=](float x) { return simd::hyperbolic_tangent(x / cap); });
  if (slopes != nullptr)
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) slopes[i] = 1.0F - scores[i] * scores[i];
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) scores[i] *= cap;
}

KERF_CLONES void add_to_scores(const float* mask, int64_t count, float* scores) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) scores[i] += mask[i];
}

void drop_scores(const uint8_t* mask, int64_t count, float* scores) {
  for (int64_t i = 0; i < count; ++i)
    if (mask[i] == 0) scores[i] = kNothing;
}

KERF_CLONES void multiply_by(const float* factors, int64_t count, float* values) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) values[i] *= factors[i];
}

}  // namespace kerf::ops::cpu
