// Numbers of 16 bits as float32, and back, rounded to the nearest, ties to even.
#pragma once

#include <bit>
#include <cstdint>

namespace kerf::ops {

// A number of more digits as a float whose last bit is set where anything was cut off: what is
// rounded to 16 bits from there is rounded once. (Boldo and Melquiond 2008, "Emulation of FMA and
// correctly rounded sums: proved algorithms using rounding to odd".)
inline float rounded_to_odd(double x) {
  const auto nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || x != x) return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  const bool beyond = x < 0 ? static_cast<double>(nearest) < x : static_cast<double>(nearest) > x;
  if (beyond) --bits;  // towards zero
  return std::bit_cast<float>(bits | 1U);
}
inline float rounded_to_odd(uint64_t x) {
  constexpr int kCut = 11;  // what a double has not room for
  const bool cut = x % (1U << kCut) != 0;
  if (x >> 53 == 0) return rounded_to_odd(static_cast<double>(x));
  return rounded_to_odd(static_cast<double>(x >> kCut | (cut ? 1U : 0U)) * (1U << kCut));
}
inline float rounded_to_odd(int64_t x) {
  const auto bits = static_cast<uint64_t>(x);
  return x < 0 ? -rounded_to_odd(0 - bits) : rounded_to_odd(bits);
}
inline float rounded_to_odd(float x) { return x; }

inline float from_bfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t to_bfloat16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (x != x) return static_cast<uint16_t>((bits >> 16) | 0x40U);  // stays NaN
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

inline float from_float16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t magnitude = bits & 0x7FFFU;
  if (magnitude >= 0x7C00U)  // infinite, or NaN
    return std::bit_cast<float>(sign | 0x7F800000U | ((magnitude & 0x3FFU) << 13));
  if (magnitude < 0x400U) {  // subnormal: so many times 2^-24
    const float x = static_cast<float>(magnitude) * 0x1p-24F;
    return sign != 0 ? -x : x;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + (112U << 23)));
}

inline uint16_t to_float16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<uint16_t>(sign | 0x7E00U);
  if (magnitude >= 0x477FF000U) return static_cast<uint16_t>(sign | 0x7C00U);  // rounds to 2^16
  if (magnitude < 0x38800000U) {
    // Below 2^-14: adding 1/2 leaves the multiple of 2^-24 in the last bits, rounded.
    const float sum = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(sum) - 0x3F000000U));
  }
  const uint32_t rounded = magnitude - (112U << 23) + 0xFFFU + ((magnitude >> 13) & 1U);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

}  // namespace kerf::ops
