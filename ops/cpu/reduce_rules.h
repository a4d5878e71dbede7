// How reductions put numbers together, and how their results change with each of them.
//
// A rule's join is associative up to rounding, and `zero` is its neutral element; a slope is the
// derivative of a result by one number x of it, from two numbers of the result's place.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/number.h"

namespace kerf::ops::cpu {

struct SumRule {
  template <class T>
  static constexpr T zero() {
    return T{};
  }
  template <class T>
  static T term(T x) {
    return x;
  }
  template <class T>
  static T join(T a, T b) {
    return number::sum(a, b);
  }
};

struct AbsoluteRule : SumRule {
  template <class T>
  static T term(T x) {
    return number::magnitude(x);
  }
};

struct SquareRule : SumRule {
  template <class T>
  static T term(T x) {
    return number::product(x, x);
  }
};

struct ZeroCountRule : SumRule {
  template <class T>
  static T term(T x) {
    return static_cast<T>(x == 0 ? 1 : 0);
  }
};

struct ProductRule {
  template <class T>
  static constexpr T zero() {
    return T{1};
  }
  template <class T>
  static T term(T x) {
    return x;
  }
  template <class T>
  static T join(T a, T b) {
    return number::product(a, b);
  }
};

struct NonZeroProductRule : ProductRule {
  template <class T>
  static T term(T x) {
    return x == 0 ? T{1} : x;
  }
};

// NaN stays.
struct MaxRule {
  template <class T>
  static constexpr T zero() {
    if constexpr (std::numeric_limits<T>::has_infinity) return -std::numeric_limits<T>::infinity();
    return std::numeric_limits<T>::lowest();
  }
  template <class T>
  static T term(T x) {
    return x;
  }
  template <class T>
  static T join(T a, T b) {
    return number::larger(b, a);
  }
};

struct MinRule {
  template <class T>
  static constexpr T zero() {
    if constexpr (std::numeric_limits<T>::has_infinity) return std::numeric_limits<T>::infinity();
    return std::numeric_limits<T>::max();
  }
  template <class T>
  static T term(T x) {
    return x;
  }
  template <class T>
  static T join(T a, T b) {
    return number::smaller(b, a);
  }
};

// Of truths: nothing that is false.
struct AllRule : MinRule {
  template <class T>
  static constexpr T zero() {
    return T{1};
  }
};

// ---- slopes, of float32

struct OneSlope {
  static constexpr bool kReads = false;
  static float of(float, float, float) { return 1; }
};
struct SignSlope {
  static constexpr bool kReads = true;
  static float of(float x, float, float) { return x > 0 ? 1.0F : x < 0 ? -1.0F : 0.0F; }
};
struct DoubleSlope {
  static constexpr bool kReads = true;
  static float of(float x, float, float) { return 2 * x; }
};
// By the result.
struct RootSlope {
  static constexpr bool kReads = true;
  static float of(float x, float y, float) { return y == 0 ? 0 : x / y; }
};
struct LogSlope {
  static constexpr bool kReads = false;
  static float of(float, float y, float) { return std::exp(-y); }
};
struct LogExpSlope {
  static constexpr bool kReads = true;
  static float of(float x, float y, float) { return std::exp(x - y); }
};
// By the result, and how many are equal to it.
struct ShareSlope {
  static constexpr bool kReads = true;
  static float of(float x, float y, float equal) { return x == y ? 1 / equal : 0; }
};
// By the product of all that is not 0, of more exponents than the result, and the number of zeros.
struct ProductSlope {
  static constexpr bool kReads = true;
  static float of(float x, double product, float zeros) {
    if (x == 0) return zeros == 1 ? static_cast<float>(product) : 0.0F;
    return zeros == 0 ? static_cast<float>(product / static_cast<double>(x)) : 0.0F;
  }
};

}  // namespace kerf::ops::cpu
