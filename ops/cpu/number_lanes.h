// Elements of any type, a stretch at a time, as the numbers that they are computed in: float for
// numbers of 32 bits and less, double, int64_t, and uint64_t for those that no other can hold.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ops/half.h"
#include "ops/tensor.h"

namespace kerf::ops::cpu {

// Of a stretch: what fits into the first cache.
inline constexpr int64_t kLanes = 256;

// Calls work(number of the type that elements of this type are computed in).
template <class Work>
void with_lane(DType dtype, const Work& work) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBFloat16:
      return work(float{});
    case DType::kFloat64:
      return work(double{});
    case DType::kUint64:
      return work(uint64_t{});
    default:
      return work(int64_t{});
  }
}

// Towards zero; what does not fit becomes the nearest that does, NaN 0. Integers wrap around.
template <class To, class From>
To converted(From x) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (x != x) return 0;
    // The limits as From: the upper one is rounded up to a power of two.
    if (x <= static_cast<From>(std::numeric_limits<To>::min()))
      return std::numeric_limits<To>::min();
    if (x >= static_cast<From>(std::numeric_limits<To>::max()))
      return std::numeric_limits<To>::max();
  }
  return static_cast<To>(x);
}

namespace detail {

// Calls work(element of the type as it is stored, how to read it, how to write it) with functions
// of one element.
template <class Lane, class Work>
void with_stored(DType dtype, const Work& work) {
  const auto number = [&](auto zero) {
    using Stored = decltype(zero);
    return work(
        zero, [](Stored x) { return converted<Lane>(x); },
        [](Lane x) { return converted<Stored>(x); });
  };
  switch (dtype) {
    case DType::kFloat32:
      return number(float{});
    case DType::kFloat64:
      return number(double{});
    case DType::kFloat16:
      return work(
          uint16_t{}, [](uint16_t x) { return converted<Lane>(from_float16(x)); },
          [](Lane x) { return to_float16(rounded_to_odd(x)); });
    case DType::kBFloat16:
      return work(
          uint16_t{}, [](uint16_t x) { return converted<Lane>(from_bfloat16(x)); },
          [](Lane x) { return to_bfloat16(rounded_to_odd(x)); });
    case DType::kInt32:
      return number(int32_t{});
    case DType::kInt64:
      return number(int64_t{});
    case DType::kBool:
      return work(
          uint8_t{}, [](uint8_t x) { return static_cast<Lane>(x != 0 ? 1 : 0); },
          [](Lane x) { return static_cast<uint8_t>(x != 0 ? 1 : 0); });
    case DType::kInt8:
      return number(int8_t{});
    case DType::kInt16:
      return number(int16_t{});
    case DType::kUint8:
      return number(uint8_t{});
    case DType::kUint16:
      return number(uint16_t{});
    case DType::kUint32:
      return number(uint32_t{});
    case DType::kUint64:
      return number(uint64_t{});
  }
}

}  // namespace detail

// lanes[i] = element at + i * stride, for i < count <= kLanes; stride 0 or 1.
template <class Lane>
void load_lanes(const TensorView& from, int64_t at, int64_t stride, int64_t count, Lane* lanes) {
  detail::with_stored<Lane>(from.dtype, [&](auto zero, const auto& read, const auto&) {
    const auto* elements = from.template as<decltype(zero)>() + at;
    if (stride == 0)
      std::fill_n(lanes, count, read(elements[0]));
    else
      for (int64_t i = 0; i < count; ++i) lanes[i] = read(elements[i]);
  });
}

template <class Lane>
void store_lanes(const Lane* lanes, int64_t count, const TensorView& to, int64_t at) {
  detail::with_stored<Lane>(to.dtype, [&](auto zero, const auto&, const auto& write) {
    auto* elements = to.template as<decltype(zero)>() + at;
    for (int64_t i = 0; i < count; ++i) elements[i] = write(lanes[i]);
  });
}

}  // namespace kerf::ops::cpu
