// Which element types an operator of a family takes.
#pragma once

#include <cstdint>
#include <string_view>

#include "ops/operator.h"

namespace kerf::ops {

enum class Types : uint8_t {
  kNumbers,  // all but bool
  kSigned,   // numbers that may be negative
  kFloats,
  kIntegers,
  kBool,
  kAll,
};

constexpr bool is_unsigned(DType dtype) {
  return dtype == DType::kUint8 || dtype == DType::kUint16 || dtype == DType::kUint32 ||
         dtype == DType::kUint64;
}

constexpr bool takes(Types types, DType dtype) {
  const bool floats = dtype == DType::kFloat32 || dtype == DType::kFloat64 ||
                      dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  switch (types) {
    case Types::kNumbers:
      return dtype != DType::kBool;
    case Types::kSigned:
      return dtype != DType::kBool && !is_unsigned(dtype);
    case Types::kFloats:
      return floats;
    case Types::kIntegers:
      return !floats && dtype != DType::kBool;
    case Types::kBool:
      return dtype == DType::kBool;
    case Types::kAll:
      return true;
  }
  return false;
}

constexpr std::string_view to_string(Types types) {
  switch (types) {
    case Types::kNumbers:
      return "numbers";
    case Types::kSigned:
      return "signed numbers";
    case Types::kFloats:
      return "floating-point numbers";
    case Types::kIntegers:
      return "integers";
    case Types::kBool:
      return "bool";
    case Types::kAll:
      return "anything";
  }
  return {};
}

// Error{kUsage} that names operator and operand.
inline void want_types(std::string_view op, const Operand& operand, std::string_view name,
                       Types types) {
  if (operand.present && !takes(types, operand.spec.dtype))
    throw Error(ErrorCode::kUsage, format("{} wants {} for {}, not {}", op, to_string(types), name,
                                          to_string(operand.spec.dtype)));
}

}  // namespace kerf::ops
