// Floating numbers of files as float32: float16 and bfloat16 exactly, float64 to the nearest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "ops/half.h"
#include "ops/tensor.h"
#include "runtime/error.h"

namespace kerf::ops {

template <class From, class Convert>
void convert_to_float32(std::span<const std::byte> from, std::span<std::byte> to,
                        const Convert& one) {
  for (size_t i = 0; i < to.size() / sizeof(float); ++i) {
    From value;
    std::memcpy(&value, from.data() + i * sizeof(From), sizeof(From));
    const float given = one(value);
    std::memcpy(to.data() + i * sizeof(float), &given, sizeof(float));
  }
}

// As many numbers of `dtype`, which is a floating type, as `to` has room for.
inline void as_float32(DType dtype, std::span<const std::byte> from, std::span<std::byte> to) {
  const auto narrow = [](double value) { return static_cast<float>(value); };
  switch (dtype) {
    case DType::kFloat32:
      std::memcpy(to.data(), from.data(), to.size());
      return;
    case DType::kFloat64:
      return convert_to_float32<double>(from, to, narrow);
    case DType::kFloat16:
      return convert_to_float32<uint16_t>(from, to, from_float16);
    case DType::kBFloat16:
      return convert_to_float32<uint16_t>(from, to, from_bfloat16);
    default:
      KERF_CHECK(false, "{} is no floating type", to_string(dtype));
  }
}

}  // namespace kerf::ops
