// Attributes as the constant inputs that ONNX has for them. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "ops/attributes.h"
#include "ops/tensor.h"

namespace kerf::partitioner::onnx {

std::string bytes_of_values(const std::vector<int64_t>& values);
// Numbers that are no integers become the nearest of `dtype` where that is an integer type, else
// float32. Throws Error{kUsage} for texts.
ops::TensorLiteral literal_of_attribute(const ops::Attribute& attribute, ops::DType dtype,
                                        const std::string& where);

}  // namespace kerf::partitioner::onnx
