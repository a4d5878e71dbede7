// The family of element-wise functions of one input: one entry each, from which follow the
// definition and the kernels of every kind of device.
//
// An entry's function is written for numbers of any type that it takes, and may have parameters,
// attributes of the node; one that gives bool makes an operator that does. Its derivative is of
// float32, a function of the output or of the input: what it does not read need not be kept. It is
// a constant expression, so that GPUs have it too.
#pragma once

#include <tuple>

#include "ops/choice.h"
#include "ops/number.h"
#include "ops/number_types.h"

namespace kerf::ops {

// An attribute of one number.
struct Parameter {
  const char* name = nullptr;  // null: none
  double otherwise = 0;
  AttributeType type = AttributeType::kFloat;
  InputAttribute (*as_input)() = nullptr;  // where newer opsets have it as an input
};
inline constexpr size_t kElementParameters = 2;

template <class T>
struct Parameters {
  T of[kElementParameters] = {};
  constexpr T operator[](size_t i) const { return of[i]; }
};

enum class DerivativeOf : uint8_t { kNothing, kInput, kOutput };

struct NoDerivative {};

template <class Forward, class Derivative>
struct Elementwise {
  const char* name;
  double flops;  // per element; more than 1 where the mathematical library is called
  Types types;
  Forward forward;  // y of x, or of x and parameters
  DerivativeOf of;
  Derivative derivative;  // dy/dx of what it reads, or of that and parameters
  Parameter parameters[kElementParameters];
  Choice choice;
  int first_opset = 1;

  constexpr Elementwise from_opset(int first) const {
    Elementwise copy = *this;
    copy.first_opset = first;
    return copy;
  }
};
template <class Forward, class Derivative>
Elementwise(const char*, double, Types, Forward, DerivativeOf, Derivative, Parameter, Parameter,
            Choice) -> Elementwise<Forward, Derivative>;

template <class Forward, class Derivative>
constexpr auto element(const char* name, double flops, Types types, Forward forward,
                       DerivativeOf of, Derivative derivative, Parameter first = {},
                       Parameter second = {}, Choice choice = {}) {
  return Elementwise<Forward, Derivative>{name, flops,      types,           forward,
                                          of,   derivative, {first, second}, choice};
}
// One without a derivative.
template <class Forward>
constexpr auto element(const char* name, Types types, Forward forward, Parameter first = {},
                       Parameter second = {}) {
  return element(name, 1, types, forward, DerivativeOf::kNothing, NoDerivative{}, first, second);
}

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
template <class T>
constexpr T limited(T x, T least, T most) {
  const T raised = x < least ? least : x;
  return raised > most ? most : raised;
}
template <class T>
constexpr T normal_share(T x) {  // of a standard normal distribution below x
  return T(0.5) * (T{1} + std::erf(x * T(0.70710678118654752440)));
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

inline constexpr auto kOfInput = DerivativeOf::kInput;
inline constexpr auto kOfOutput = DerivativeOf::kOutput;
inline constexpr auto kOfNothing = DerivativeOf::kNothing;

// ---- what bends at some place

inline constexpr std::tuple kBent{
    // NaN stays NaN, so that a diverged run shows.
    element(
        "Relu", 1, Types::kSigned, [](auto x) { return x < 0 ? decltype(x){0} : x; }, kOfOutput,
        [](float y) { return y > 0 ? 1.0F : 0.0F; }),
    element(
        "LeakyRelu", 1, Types::kFloats, [](auto x, const auto& p) { return x < 0 ? p[0] * x : x; },
        kOfInput, [](float x, const auto& p) { return x > 0 ? 1.0F : p[0]; }, {"alpha", 0.01}),
    element(
        "ThresholdedRelu", 1, Types::kFloats,
        [](auto x, const auto& p) { return x <= p[0] ? decltype(x){0} : x; }, kOfInput,
        [](float x, const auto& p) { return x > p[0] ? 1.0F : 0.0F; }, {"alpha", 1})
        .from_opset(10),
    element(
        "Clip", 1, Types::kNumbers,
        [](auto x, const auto& p) { return element_functions::limited(x, p[0], p[1]); }, kOfInput,
        [](float x, const auto& p) { return x < p[0] || x > p[1] ? 0.0F : 1.0F; },
        {"min", -std::numeric_limits<double>::infinity(), AttributeType::kFloat,
         [] {
           return InputAttribute{"min", 1, 11};
         }},
        {"max", std::numeric_limits<double>::infinity(), AttributeType::kFloat,
         [] {
           return InputAttribute{"max", 2, 11};
         }}),
    element(
        "HardSigmoid", 1, Types::kFloats,
        [](auto x, const auto& p) {
          return element_functions::limited(p[0] * x + p[1], decltype(x){0}, decltype(x){1});
        },
        kOfOutput, [](float y, const auto& p) { return y > 0 && y < 1 ? p[0] : 0.0F; },
        {"alpha", 0.2}, {"beta", 0.5}),
    element(
        "HardSwish", 1, Types::kFloats,
        [](auto x) {
          using T = decltype(x);
          return x * element_functions::limited(x / T{6} + T(0.5), T{0}, T{1});
        },
        kOfInput, [](float x) { return x < -3  ? 0.0F
                                       : x > 3 ? 1.0F
                                               : x / 3.0F + 0.5F; })
        .from_opset(14),
    element(
        "Shrink", 1, Types::kNumbers,
        [](auto x, const auto& p) {
          const auto lowered = number::difference(x, p[1]);
          const auto raised = number::sum(x, p[1]);
          const auto shrunk = x > p[0] ? lowered : x != x ? x : decltype(x){0};
          if constexpr (std::is_unsigned_v<decltype(x)>)
            return shrunk;
          else
            return x < number::negative(p[0]) ? raised : shrunk;
        },
        kOfInput, [](float x, const auto& p) { return x < -p[0] || x > p[0] ? 1.0F : 0.0F; },
        {"lambd", 0.5}, {"bias", 0})
        .from_opset(9),
    element(
        "Abs", 1, Types::kNumbers, [](auto x) { return number::magnitude(x); }, kOfInput,
        [](float x) { return x > 0   ? 1.0F
                             : x < 0 ? -1.0F
                                     : 0.0F; }),
    element(
        "Neg", 1, Types::kSigned, [](auto x) { return number::negative(x); }, kOfNothing,
        [](float) { return -1.0F; }),
};

// ---- steps, whose derivative is 0

inline constexpr std::tuple kSteps{
    element(
        "Floor", 1, Types::kFloats, [](auto x) { return std::floor(x); }, kOfNothing,
        [](float) { return 0.0F; }),
    element(
        "Ceil", 1, Types::kFloats, [](auto x) { return std::ceil(x); }, kOfNothing,
        [](float) { return 0.0F; }),
    // Halves to the even neighbour.
    element(
        "Round", 1, Types::kFloats, [](auto x) { return std::nearbyint(x); }, kOfNothing,
        [](float) { return 0.0F; })
        .from_opset(11),
    element(
        "Sign", 1, Types::kNumbers,
        [](auto x) {
          using T = decltype(x);
          return x > 0 ? T{1} : x < 0 ? number::negative(T{1}) : x != x ? x : T{0};
        },
        kOfNothing, [](float) { return 0.0F; })
        .from_opset(9),
};

// ---- what the mathematical library computes

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
          const float density = 0.3989422804F * std::exp(-0.5F * x * x);
          return element_functions::normal_share(x) + x * density;
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

// ---- what is asked of numbers, and of bits

inline constexpr std::tuple kAsked{
    element("IsNaN", Types::kFloats, [](auto x) { return x != x; }).from_opset(9),
    element("IsInf", Types::kFloats,
            [](auto x, const auto& p) {
              constexpr auto kLargest = std::numeric_limits<decltype(x)>::max();
              return (x > kLargest && p[1] != 0) || (x < -kLargest && p[0] != 0);
            },
            {"detect_negative", 1, AttributeType::kInt},
            {"detect_positive", 1, AttributeType::kInt})
        .from_opset(10),
    element("Not", Types::kBool, [](auto x) { return x == 0; }),
    element("BitwiseNot", Types::kIntegers, [](auto x) { return static_cast<decltype(x)>(~x); })
        .from_opset(18),
};

inline constexpr std::tuple kElementwise =
    std::tuple_cat(kBent, kSteps, kCurved, kTrigonometric, kAsked);
inline constexpr size_t kElementwises = std::tuple_size_v<decltype(kElementwise)>;

// Calls an entry's function, which may want no parameters.
template <class Function, class T>
constexpr auto applied(const Function& function, T x, const Parameters<T>& parameters) {
  if constexpr (std::is_invocable_v<Function, T>)
    return function(x);
  else
    return function(x, parameters);
}

// Whether entry kIndex has a derivative.
template <size_t kIndex>
inline constexpr bool kIsDerived =
    !std::is_same_v<std::remove_cvref_t<decltype(std::get<kIndex>(kElementwise).derivative)>,
                    NoDerivative>;

// Whether it gives bool.
template <size_t kIndex>
inline constexpr bool kAsks = [] {
  constexpr auto entry = std::get<kIndex>(kElementwise);
  if constexpr (takes(entry.types, DType::kFloat32))
    return std::is_same_v<bool, decltype(applied(entry.forward, 1.0F, Parameters<float>{}))>;
  else
    return std::is_same_v<bool,
                          decltype(applied(entry.forward, int64_t{1}, Parameters<int64_t>{}))>;
}();

}  // namespace kerf::ops
