// e^x in a form that compilers turn into vectors: no call, no table, no branch. For use within a
// KERF_CLONES function; the same bits under every instruction set.
#pragma once

#include <bit>
#include <cstdint>

namespace kerf::ops::simd {

// For x up to 88, within 2 units in the last place; 0 below -87.3, NaN for NaN.
[[gnu::always_inline]] constexpr float exponential(float x) {
  constexpr float kLeast = -87.33654F;       // the smallest normal number
  constexpr float kToInteger = 12582912.0F;  // 1.5 * 2^23: a sum with it has no fraction
  const float clamped = x < kLeast ? kLeast : x;
  const float shifted = clamped * 1.44269504F + kToInteger;
  const float n = shifted - kToInteger;
  // x = n * ln 2 + r, ln 2 in two parts so that the product is exact; |r| <= ln 2 / 2.
  const float r = (clamped - n * 0.693359375F) - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  const auto bits = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kToInteger);
  const auto power = std::bit_cast<float>((bits + 127U) << 23U);
  return x < kLeast ? 0.0F : p * power;
}

// tanh(x) and 1 / (1 + e^-x) by it, to 1e-7.
[[gnu::always_inline]] inline float sigmoid(float x) {
  const float e = exponential(x < 0 ? x : -x);
  const float small = e / (1.0F + e);
  return x < 0 ? small : 1.0F - small;
}

[[gnu::always_inline]] inline float hyperbolic_tangent(float x) {
  const float size = x < 0 ? -x : x;
  const float e = exponential(-2.0F * size);
  // Near 0, where 1 - e cancels, by its series.
  const float s = x * x;
  const float series =
      size * (1.0F + s * (-0.33333334F + s * (0.13333334F + s * (-0.05396825F + s * 0.02186949F))));
  const float far = (1.0F - e) / (1.0F + e);
  const float value = size < 0.3F ? series : far;
  return x < 0 ? -value : value;
}

}  // namespace kerf::ops::simd
