// What operators that pick by index have in common.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

// Throws Error{kUsage} unless the operand is of int64 or int32.
inline void want_indices(std::string_view op, const Operand& operand) {
  const DType type = operand.spec.dtype;
  if (type != DType::kInt64 && type != DType::kInt32)
    throw Error(ErrorCode::kUsage,
                format("{} wants int64 or int32 for indices, not {}", op, to_string(type)));
}

// Bytes of a local operand.
inline double bytes_of(const ValueSpec& local) {
  return static_cast<double>(local.shape.elements()) * static_cast<double>(size_of(local.dtype));
}

}  // namespace kerf::ops
