// An entry of the family of element-wise functions (ops/elementwise.h).
//
// Its function is written for numbers of any type that it takes, and may have parameters,
// attributes of the node; one that gives bool makes an operator that does. Its derivative is of
// float32, a function of the output or of the input: what it does not read need not be kept. It is
// a constant expression, so that GPUs have it too.
#pragma once

#include "ops/choice.h"
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
  double flops;  // per element; more than 1 where the mathematical library may be called
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

inline constexpr auto kOfInput = DerivativeOf::kInput;
inline constexpr auto kOfOutput = DerivativeOf::kOutput;
inline constexpr auto kOfNothing = DerivativeOf::kNothing;

}  // namespace kerf::ops
