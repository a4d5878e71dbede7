// Numbers of every element type that the host computes with.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>

#include "ops/tensor.h"

namespace kerf::ops::cpu {

// Whether with_number() knows the type: all but the halves and bool.
inline bool is_number(DType dtype) {
  return dtype != DType::kFloat16 && dtype != DType::kBFloat16 && dtype != DType::kBool;
}

// Calls work(a zero of the type).
template <class Work>
void with_number(DType dtype, const Work& work) {
  switch (dtype) {
    case DType::kFloat32:
      return work(float{});
    case DType::kFloat64:
      return work(double{});
    case DType::kInt32:
      return work(int32_t{});
    case DType::kInt64:
      return work(int64_t{});
    case DType::kInt8:
      return work(int8_t{});
    case DType::kInt16:
      return work(int16_t{});
    case DType::kUint8:
      return work(uint8_t{});
    case DType::kUint16:
      return work(uint16_t{});
    case DType::kUint32:
      return work(uint32_t{});
    case DType::kUint64:
      return work(uint64_t{});
    default:
      throw Error(ErrorCode::kInternal, format("no arithmetic of {}", to_string(dtype)));
  }
}

}  // namespace kerf::ops::cpu
