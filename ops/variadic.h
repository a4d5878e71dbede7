// The family of element-wise functions of any number of inputs, repeated over each other (ONNX:
// Sum, Mean, Max, Min): one entry each.
#pragma once

#include "ops/broadcast.h"
#include "ops/number.h"
#include "ops/number_types.h"

namespace kerf::ops {

// What becomes of the gradient of the output.
enum class Sharing : uint8_t {
  kAll,    // each input has it
  kPart,   // each has its part: of a mean
  kEqual,  // those that equal the output share it
};

template <class Join>
struct Variadic {
  const char* name;
  Types types;
  Join join;  // of what was joined before, and the next input
  Sharing share;
};
template <class Join>
Variadic(const char*, Types, Join, Sharing) -> Variadic<Join>;

inline constexpr std::tuple kVariadic{
    Variadic{"Sum", Types::kFloats, [](auto a, auto b) { return a + b; }, Sharing::kAll},
    Variadic{"Mean", Types::kFloats, [](auto a, auto b) { return a + b; }, Sharing::kPart},
    Variadic{"Max", Types::kNumbers, [](auto a, auto b) { return number::larger(a, b); },
             Sharing::kEqual},
    Variadic{"Min", Types::kNumbers, [](auto a, auto b) { return number::smaller(a, b); },
             Sharing::kEqual},
};
inline constexpr size_t kVariadics = std::tuple_size_v<decltype(kVariadic)>;

}  // namespace kerf::ops
