// The family of element-wise functions of two inputs, repeated over each other: one entry each,
// from which follow the definition and the kernels of every kind of device.
//
// An entry's function is written for numbers of any type that it takes; one that gives bool makes
// an operator that does. Its slopes, if it has them, are of float32: what flows back into one
// input, of the output's gradient `dy` and of those among the inputs and the output that it reads.
#pragma once

#include <tuple>

#include "ops/choice.h"
#include "ops/number.h"
#include "ops/number_types.h"

namespace kerf::ops {

inline constexpr unsigned kReadsNothing = 0;
inline constexpr unsigned kReadsA = 1;
inline constexpr unsigned kReadsB = 2;
inline constexpr unsigned kReadsY = 4;

template <class Function>
struct Slope {
  unsigned reads;
  Function of;  // (dy, a, b, y); what is not read is 0
};
template <class Function>
Slope(unsigned, Function) -> Slope<Function>;
struct NoSlope {};

template <class Forward, class SlopeA, class SlopeB>
struct Binary {
  const char* name;
  double flops;  // per element
  Types types;   // of both inputs
  Forward forward;
  SlopeA slope_a;
  SlopeB slope_b;
  Choice choice;
  int first_opset = 7;  // before it, `broadcast` was an attribute

  constexpr Binary from_opset(int first) const {
    Binary copy = *this;
    copy.first_opset = first;
    return copy;
  }
};
template <class Forward, class SlopeA, class SlopeB>
Binary(const char*, double, Types, Forward, SlopeA, SlopeB, Choice)
    -> Binary<Forward, SlopeA, SlopeB>;

// One that has slopes.
template <class Forward, class SlopeA, class SlopeB>
constexpr auto smooth(const char* name, double flops, Types types, Forward forward, SlopeA slope_a,
                      SlopeB slope_b) {
  return Binary{name, flops, types, forward, slope_a, slope_b, Choice{}};
}
// One that has none.
template <class Forward>
constexpr auto plain(const char* name, Types types, Forward forward, Choice choice = {}) {
  return Binary{name, 1, types, forward, NoSlope{}, NoSlope{}, choice};
}

inline constexpr std::tuple kBinary{
    smooth(
        "Add", 1, Types::kNumbers, [](auto a, auto b) { return number::sum(a, b); },
        Slope{kReadsNothing, [](float dy, float, float, float) { return dy; }},
        Slope{kReadsNothing, [](float dy, float, float, float) { return dy; }}),
    smooth(
        "Sub", 1, Types::kNumbers, [](auto a, auto b) { return number::difference(a, b); },
        Slope{kReadsNothing, [](float dy, float, float, float) { return dy; }},
        Slope{kReadsNothing, [](float dy, float, float, float) { return -dy; }}),
    smooth(
        "Mul", 1, Types::kNumbers, [](auto a, auto b) { return number::product(a, b); },
        Slope{kReadsB, [](float dy, float, float b, float) { return dy * b; }},
        Slope{kReadsA, [](float dy, float a, float, float) { return dy * a; }}),
    smooth(
        "Div", 1, Types::kNumbers, [](auto a, auto b) { return number::quotient(a, b); },
        Slope{kReadsB, [](float dy, float, float b, float) { return dy / b; }},
        Slope{kReadsB | kReadsY, [](float dy, float, float b, float y) { return -dy * y / b; }}),
    // The slope of x to the power of 0 is 0, even at 0; that of 0 to a positive power, too.
    smooth(
        "Pow", 8, Types::kNumbers, [](auto a, auto b) { return number::power(a, b); },
        Slope{kReadsA | kReadsB,
              [](float dy, float a, float b, float) {
                const float steep = std::pow(a, b - 1);
                return b == 0 ? 0 : dy * b * steep;
              }},
        Slope{kReadsA | kReadsB | kReadsY,
              [](float dy, float a, float b, float y) {
                const float steep = std::log(a);
                return a == 0 && b >= 0 ? 0 : dy * y * steep;
              }}),
    smooth(
        "PRelu", 1, Types::kNumbers,
        [](auto x, auto slope) { return x < 0 ? number::product(x, slope) : x; },
        Slope{kReadsA | kReadsB,
              [](float dy, float x, float slope, float) { return x > 0 ? dy : dy * slope; }},
        Slope{kReadsA, [](float dy, float x, float, float) { return x < 0 ? dy * x : 0; }}),

    plain("Mod", Types::kNumbers, [](auto a, auto b) { return number::modulus(a, b); },
          {"fmod", AttributeType::kInt, "0", true})
        .from_opset(10),
    plain("Mod", Types::kNumbers, [](auto a, auto b) { return number::remainder(a, b); },
          {"fmod", AttributeType::kInt, "1"})
        .from_opset(10),
    plain("BitwiseAnd", Types::kIntegers, [](auto a, auto b) { return a & b; }).from_opset(18),
    plain("BitwiseOr", Types::kIntegers, [](auto a, auto b) { return a | b; }).from_opset(18),
    plain("BitwiseXor", Types::kIntegers, [](auto a, auto b) { return a ^ b; }).from_opset(18),
    plain("BitShift", Types::kIntegers, [](auto a, auto b) { return number::shifted_left(a, b); },
          {"direction", AttributeType::kString, "LEFT"})
        .from_opset(11),
    plain("BitShift", Types::kIntegers, [](auto a, auto b) { return number::shifted_right(a, b); },
          {"direction", AttributeType::kString, "RIGHT"})
        .from_opset(11),

    plain("Equal", Types::kAll, [](auto a, auto b) { return a == b; }),
    plain("Less", Types::kNumbers, [](auto a, auto b) { return a < b; }),
    plain("LessOrEqual", Types::kNumbers, [](auto a, auto b) { return a <= b; }).from_opset(12),
    plain("Greater", Types::kNumbers, [](auto a, auto b) { return a > b; }),
    plain("GreaterOrEqual", Types::kNumbers, [](auto a, auto b) { return a >= b; }).from_opset(12),
    plain("And", Types::kBool, [](auto a, auto b) { return a != 0 && b != 0; }),
    plain("Or", Types::kBool, [](auto a, auto b) { return a != 0 || b != 0; }),
    plain("Xor", Types::kBool, [](auto a, auto b) { return (a != 0) != (b != 0); }),
};
inline constexpr size_t kBinaries = std::tuple_size_v<decltype(kBinary)>;

template <size_t kIndex>
using BinaryEntry = std::remove_cvref_t<decltype(std::get<kIndex>(kBinary))>;

template <size_t kIndex>
inline constexpr bool kIsSmooth =
    !std::is_same_v<decltype(BinaryEntry<kIndex>::slope_a), const NoSlope> &&
    !std::is_same_v<decltype(BinaryEntry<kIndex>::slope_a), NoSlope>;

// Whether it gives bool: the same for all types that it takes.
template <size_t kIndex>
inline constexpr bool kGivesBool =
    std::is_same_v<bool, decltype(std::get<kIndex>(kBinary).forward(uint64_t{1}, uint64_t{1}))>;

}  // namespace kerf::ops
