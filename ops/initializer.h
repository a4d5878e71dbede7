// How parameters begin: each element is a pure function of (seed, parameter number, global index),
// so every plan starts from the same bits. Elements are drawn from the stream {seed,
// kParameterPurpose + number} of ops/random.h. Pure functions of host memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ops/layout.h"
#include "ops/tensor.h"

namespace kerf::ops {

struct Initializer {
  enum class Kind : uint8_t { kZero, kOne, kUniform, kNormal, kConstant };
  Kind kind = Kind::kZero;
  double scale = 0;  // kUniform: in [-scale, scale); kNormal: standard deviation; kConstant: the
                     // number itself. Rounded to float

  bool operator==(const Initializer&) const = default;
};

std::string_view to_string(Initializer::Kind kind);
// "zero", "one", "uniform", "normal" or "constant". Throws Error{kUsage}.
Initializer::Kind parse_initializer(const std::string& name);

// Fills the local float32 tensor that holds `box` of parameter number `parameter` of `shape`.
// Throws Error{kUsage} for a scale that is not finite, or negative but of kConstant.
void initialize(const TensorView& local, const Box& box, const Shape& shape,
                const Initializer& initializer, uint64_t seed, uint32_t parameter);

}  // namespace kerf::ops
