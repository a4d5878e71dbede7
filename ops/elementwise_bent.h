// Element-wise functions that are put together of straight lines and steps.
#pragma once

#include <cmath>
#include <limits>
#include <tuple>

#include "ops/elementwise_entry.h"
#include "ops/number.h"

namespace kerf::ops {

namespace element_functions {

template <class T>
constexpr T limited(T x, T least, T most) {
  const T raised = x < least ? least : x;
  return raised > most ? most : raised;
}

}  // namespace element_functions

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

}  // namespace kerf::ops
