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

[[gnu::always_inline]] inline float larger_score(float most, float score) {
  return (score > most) | (score != score) ? score : most;  // NaN stays
}

[[gnu::always_inline]] inline float largest_score(const float* scores, int64_t count) {
  constexpr int64_t kLanes = 16;
  float most[kLanes];
  for (float& one : most) one = kNothing;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
#pragma omp simd
    for (int64_t lane = 0; lane < kLanes; ++lane)
      most[lane] = larger_score(most[lane], scores[i + lane]);
  float result = kNothing;
  for (; i < count; ++i) result = larger_score(result, scores[i]);
  for (const float one : most) result = larger_score(result, one);
  return result;
}

}  // namespace

KERF_CLONES ScoreSum weights_of_scores(float* scores, int64_t count) {
  const float most = largest_score(scores, count);
  if (most == kNothing) {
    std::fill_n(scores, count, 0.0F);
    return {kNothing, 0};
  }
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) scores[i] = simd::exponential(scores[i] - most);
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
#pragma omp simd
  for (int64_t i = 0; i < count; ++i)
    scores[i] = simd::exponential(scores[i] - sum.largest) * sum.share;
}

KERF_CLONES void score_gradients(const float* weights, int64_t count, float* gradients) {
  const float sum = simd::sum_in_lanes(count, [=](int64_t i) { return weights[i] * gradients[i]; });
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) gradients[i] = weights[i] * (gradients[i] - sum);
}

KERF_CLONES void cap_scores(float cap, int64_t count, float* scores, float* slopes) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) scores[i] = simd::hyperbolic_tangent(scores[i] / cap);
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
