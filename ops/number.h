// Arithmetic that every entry of a family may use, on numbers of any type, of every device.
// Integers wrap around; nothing traps.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace kerf::ops::number {

// What an integer of this type is added and multiplied as: unsigned, and no narrower than int,
// which it would become.
template <class T>
using Wrapping =
    std::conditional_t<sizeof(T) < sizeof(unsigned), unsigned, std::make_unsigned_t<T>>;

template <class T>
constexpr T sum(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  else
    return a + b;
}

template <class T>
constexpr T difference(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
  else
    return a - b;
}

template <class T>
constexpr T negative(T x) {
  if constexpr (std::is_integral_v<T>)
    return difference(T{0}, x);
  else
    return -x;
}

template <class T>
constexpr T product(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  else
    return a * b;
}

template <class T>
constexpr bool is_minus_one(T x) {
  return std::is_signed_v<T> && x == static_cast<T>(-1);
}

// Integers towards zero; 0 of a division by zero.
template <class T>
constexpr T quotient(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    return is_minus_one(b) ? negative(a) : static_cast<T>(a / b);
  } else {
    return a / b;
  }
}

// With the sign of the dividend.
template <class T>
constexpr T remainder(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return b == 0 || is_minus_one(b) ? T{0} : static_cast<T>(a % b);
  else
    return std::fmod(a, b);
}

// With the sign of the divisor.
template <class T>
constexpr T modulus(T a, T b) {
  const T rest = remainder(a, b);
  if (rest != 0) return (rest < 0) != (b < 0) ? sum(rest, b) : rest;
  if constexpr (std::is_integral_v<T>)
    return rest;
  else
    return std::copysign(rest, b);
}

// By any number of bits: those shifted out are gone, and the sign fills in.
template <class T>
constexpr T shifted_left(T a, T bits) {
  return bits < 0 || bits > 63 ? T{0} : static_cast<T>(a << bits);
}
template <class T>
constexpr T shifted_right(T a, T bits) {
  if (bits >= 0 && bits <= 63) return static_cast<T>(a >> bits);
  return a < 0 ? static_cast<T>(-1) : T{0};
}

template <class T>
constexpr T power(T base, T exponent) {
  if constexpr (std::is_integral_v<T>) {
    if (exponent < 0) {
      if (base == 1) return 1;
      if (is_minus_one(base)) return exponent % 2 == 0 ? T{1} : base;
      return 0;
    }
    T result = 1;
    for (; exponent > 0; exponent = static_cast<T>(exponent / 2)) {
      if (exponent % 2 != 0) result = product(result, base);
      base = product(base, base);
    }
    return result;
  } else {
    return std::pow(base, exponent);
  }
}

// NaN stays NaN.
template <class T>
constexpr T larger(T a, T b) {
  return a > b || a != a ? a : b;
}
template <class T>
constexpr T smaller(T a, T b) {
  return a < b || a != a ? a : b;
}

template <class T>
constexpr bool is_nan(T x) {
  return x != x;
}

template <class T>
constexpr T magnitude(T x) {
  if constexpr (std::is_unsigned_v<T>)
    return x;
  else if constexpr (std::is_integral_v<T>)
    return x < 0 ? negative(x) : x;
  else
    return std::abs(x);
}

}  // namespace kerf::ops::number
