// Element-wise functions that are no lines and steps: what the mathematical library computes, and
// what is near it.
#pragma once

#include <cmath>
#include <tuple>

#include "ops/elementwise_entry.h"
#include "ops/simd/exponential.h"

namespace kerf::ops {

namespace element_functions {

// Of sums and products only, so that loops become those of vectors.
template <class T>
constexpr T sigmoid(T x) {
  return T{1} / (T{1} + std::exp(-x));
}
template <class T>
constexpr T softplus(T x) {
  return (x > 0 ? x : T{0}) + std::log1p(std::exp(-std::abs(x)));
}

// Of a standard normal distribution: e^(-x^2 / 2), and how much of it lies below x.
struct Normal {
  float bell = 0;
  float below = 0;
};
// Both to 1.1e-6 of themselves where |x| < 5, to 5e-6 where |x| < 13.2, and beyond is nothing: the
// tail is the bell times a rational function, within 5e-9 of erfc's (a least relative error's),
// where 1 + erf would cancel (ADR 31).
constexpr Normal normal(float x) {
  const float size = x < 0 ? -x : x;
  const float t = size > 14.0F ? 14.0F : size;  // beyond, there is no tail
  float numerator = 0.0040203590F;
  numerator = numerator * t + 0.0399853009F;
  numerator = numerator * t + 0.1813100752F;
  numerator = numerator * t + 0.4356907371F;
  numerator = numerator * t + 0.5F;
  float denominator = 0.0100774024F;
  denominator = denominator * t + 0.1002356659F;
  denominator = denominator * t + 0.4643890902F;
  denominator = denominator * t + 1.1944978989F;
  denominator = denominator * t + 1.6692663925F;
  denominator = denominator * t + 1.0F;
  const float bell = simd::exponential(-0.5F * (t * t));
  const float tail = bell * (numerator / denominator);
  return {bell, x < 0 ? tail : 1.0F - tail};
}
constexpr float normal_share(float x) { return normal(x).below; }
constexpr double normal_share(double x) {
  return 0.5 * (1.0 + std::erf(x * 0.70710678118654752440));
}

// sqrt(2 / pi) (x + 0.044715 x^3), and its derivative.
template <class T>
constexpr T bent(T x) {
  return T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);
}
constexpr float bent_slope(float x) { return 0.79788456F * (1.0F + 0.134145F * x * x); }

inline constexpr double kSeluAlpha = 1.67326319217681884765625;
inline constexpr double kSeluGamma = 1.05070102214813232421875;

}  // namespace element_functions

// ---- curves

inline constexpr std::tuple kCurved{
    element(
        "Sigmoid", 4, Types::kFloats, [](auto x) { return element_functions::sigmoid(x); },
        kOfOutput, [](float y) { return y * (1.0F - y); }),
    element(
        "Tanh", 4, Types::kFloats, [](auto x) { return std::tanh(x); }, kOfOutput,
        [](float y) { return 1.0F - y * y; }),
    element(
        "Exp", 4, Types::kFloats, [](auto x) { return std::exp(x); }, kOfOutput,
        [](float y) { return y; }),
    element(
        "Log", 4, Types::kFloats, [](auto x) { return std::log(x); }, kOfInput,
        [](float x) { return 1.0F / x; }),
    element(
        "Sqrt", 2, Types::kFloats, [](auto x) { return std::sqrt(x); }, kOfOutput,
        [](float y) { return 0.5F / y; }),
    element(
        "Reciprocal", 2, Types::kFloats, [](auto x) { return decltype(x){1} / x; }, kOfOutput,
        [](float y) { return -y * y; }),
    element(
        "Erf", 8, Types::kFloats, [](auto x) { return std::erf(x); }, kOfInput,
        [](float x) { return 1.1283791671F * std::exp(-x * x); })
        .from_opset(9),
    element(
        "Gelu", 8, Types::kFloats, [](auto x) { return x * element_functions::normal_share(x); },
        kOfInput,
        [](float x) {
          const element_functions::Normal n = element_functions::normal(x);
          return n.below + 0.3989422804F * x * n.bell;
        },
        {}, {}, {"approximate", AttributeType::kString, "none", true})
        .from_opset(20),
    element(
        "Gelu", 8, Types::kFloats,
        [](auto x) {
          using T = decltype(x);
          return T(0.5) * x * (T{1} + std::tanh(element_functions::bent(x)));
        },
        kOfInput,
        [](float x) {
          const float t = std::tanh(element_functions::bent(x));
          const float rise = (1.0F - t * t) * element_functions::bent_slope(x);
          return 0.5F * (1.0F + t + x * rise);
        },
        {}, {}, {"approximate", AttributeType::kString, "tanh"})
        .from_opset(20),
    element(
        "Swish", 5, Types::kFloats,
        [](auto x, const auto& p) { return x * element_functions::sigmoid(p[0] * x); }, kOfInput,
        [](float x, const auto& p) {
          const float s = element_functions::sigmoid(p[0] * x);
          return s + p[0] * x * s * (1.0F - s);
        },
        {"alpha", 1})
        .from_opset(24),
    element(
        "Elu", 5, Types::kFloats,
        [](auto x, const auto& p) {
          const auto below = p[0] * std::expm1(x);
          return x < 0 ? below : x;
        },
        kOfInput,
        [](float x, const auto& p) {
          const float below = p[0] * std::exp(x);
          return x < 0 ? below : 1.0F;
        },
        {"alpha", 1}),
    element(
        "Selu", 5, Types::kFloats,
        [](auto x, const auto& p) {
          const auto below = p[0] * std::expm1(x);
          return p[1] * (x < 0 ? below : x);
        },
        kOfInput,
        [](float x, const auto& p) {
          const float below = p[0] * std::exp(x);
          return p[1] * (x < 0 ? below : 1.0F);
        },
        {"alpha", element_functions::kSeluAlpha}, {"gamma", element_functions::kSeluGamma}),
    element(
        "Celu", 5, Types::kFloats,
        [](auto x, const auto& p) {
          const auto below = p[0] * std::expm1(x / p[0]);
          return x < 0 ? below : x;
        },
        kOfInput,
        [](float x, const auto& p) {
          const float below = std::exp(x / p[0]);
          return x < 0 ? below : 1.0F;
        },
        {"alpha", 1})
        .from_opset(12),
    element(
        "Softplus", 8, Types::kFloats, [](auto x) { return element_functions::softplus(x); },
        kOfInput, [](float x) { return element_functions::sigmoid(x); }),
    element(
        "Softsign", 2, Types::kFloats, [](auto x) { return x / (decltype(x){1} + std::abs(x)); },
        kOfInput,
        [](float x) {
          const float share = 1.0F / (1.0F + std::abs(x));
          return share * share;
        }),
    element(
        "Mish", 12, Types::kFloats,
        [](auto x) { return x * std::tanh(element_functions::softplus(x)); }, kOfInput,
        [](float x) {
          const float t = std::tanh(element_functions::softplus(x));
          return t + x * element_functions::sigmoid(x) * (1.0F - t * t);
        })
        .from_opset(18),
};

inline constexpr std::tuple kTrigonometric{
    element(
        "Sin", 8, Types::kFloats, [](auto x) { return std::sin(x); }, kOfInput,
        [](float x) { return std::cos(x); })
        .from_opset(7),
    element(
        "Cos", 8, Types::kFloats, [](auto x) { return std::cos(x); }, kOfInput,
        [](float x) { return -std::sin(x); })
        .from_opset(7),
    element(
        "Tan", 8, Types::kFloats, [](auto x) { return std::tan(x); }, kOfOutput,
        [](float y) { return 1.0F + y * y; })
        .from_opset(7),
    element(
        "Asin", 8, Types::kFloats, [](auto x) { return std::asin(x); }, kOfInput,
        [](float x) { return 1.0F / std::sqrt(1.0F - x * x); })
        .from_opset(7),
    element(
        "Acos", 8, Types::kFloats, [](auto x) { return std::acos(x); }, kOfInput,
        [](float x) { return -1.0F / std::sqrt(1.0F - x * x); })
        .from_opset(7),
    element(
        "Atan", 8, Types::kFloats, [](auto x) { return std::atan(x); }, kOfInput,
        [](float x) { return 1.0F / (1.0F + x * x); })
        .from_opset(7),
    element(
        "Sinh", 8, Types::kFloats, [](auto x) { return std::sinh(x); }, kOfInput,
        [](float x) { return std::cosh(x); })
        .from_opset(9),
    element(
        "Cosh", 8, Types::kFloats, [](auto x) { return std::cosh(x); }, kOfInput,
        [](float x) { return std::sinh(x); })
        .from_opset(9),
    element(
        "Asinh", 8, Types::kFloats, [](auto x) { return std::asinh(x); }, kOfInput,
        [](float x) { return 1.0F / std::sqrt(x * x + 1.0F); })
        .from_opset(9),
    element(
        "Acosh", 8, Types::kFloats, [](auto x) { return std::acosh(x); }, kOfInput,
        [](float x) { return 1.0F / std::sqrt(x * x - 1.0F); })
        .from_opset(9),
    element(
        "Atanh", 8, Types::kFloats, [](auto x) { return std::atanh(x); }, kOfInput,
        [](float x) { return 1.0F / (1.0F - x * x); })
        .from_opset(9),
};

}  // namespace kerf::ops
