// How parameters begin: each element is a pure function of (seed, parameter number, global index), so
// every plan starts from the same bits.
#pragma once

#include <cstdint>
#include <string>

#include "ops/layout.h"
#include "ops/tensor.h"

namespace kerf::ops {

struct Initializer {
  enum class Kind : uint8_t { kZero, kOne, kUniform, kNormal };
  Kind kind = Kind::kZero;
  double scale = 0;  // kUniform: in [-scale, scale); kNormal: standard deviation

  bool operator==(const Initializer&) const = default;
};

std::string_view to_string(Initializer::Kind kind);
Initializer::Kind parse_initializer(const std::string& name);

// Fills the local tensor that holds `box` of a parameter of `shape`.
void initialize(const TensorView& local, const Box& box, const Shape& shape,
                const Initializer& initializer, uint64_t seed, uint32_t parameter);

}  // namespace kerf::ops
