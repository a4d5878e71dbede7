// The family of element-wise functions of one input: one entry each, from which follow the
// definition and the kernels of every kind of device.
#pragma once

#include <limits>
#include <tuple>

#include "ops/elementwise_bent.h"
#include "ops/elementwise_curved.h"

namespace kerf::ops {

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
