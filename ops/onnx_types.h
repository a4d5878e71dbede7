// ONNX's numbers of element types (TensorProto.DataType), which files and attributes carry.
#pragma once

#include <cstdint>
#include <optional>

#include "ops/tensor.h"

namespace kerf::ops {

int32_t onnx_type(DType dtype);
// Nothing for strings, complex numbers, what has less than a byte, and what is no type's number.
std::optional<DType> dtype_of_onnx(int64_t number);

}  // namespace kerf::ops
