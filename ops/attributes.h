// Attributes of a node: named constants, as ONNX has them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ops/tensor.h"

namespace kerf::ops {

// A constant tensor, dense and row-major.
struct TensorLiteral {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::string bytes;
  bool operator==(const TensorLiteral&) const = default;
};

using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>, TensorLiteral>;
using Attributes = std::map<std::string, Attribute>;

// In the order of Attribute's alternatives.
enum class AttributeType : uint8_t { kInt, kFloat, kString, kInts, kFloats, kStrings, kTensor };
std::string_view to_string(AttributeType type);  // "an integer", "a list of strings"

// The attribute or `otherwise`. Throws Error{kUsage} if it has another type.
int64_t attribute_int(const Attributes& attributes, const std::string& name, int64_t otherwise);
double attribute_float(const Attributes& attributes, const std::string& name, double otherwise);
std::string attribute_string(const Attributes& attributes, const std::string& name,
                             std::string otherwise);
std::vector<int64_t> attribute_ints(const Attributes& attributes, const std::string& name,
                                    std::vector<int64_t> otherwise);
std::vector<double> attribute_floats(const Attributes& attributes, const std::string& name,
                                     std::vector<double> otherwise);
std::vector<std::string> attribute_strings(const Attributes& attributes, const std::string& name,
                                           std::vector<std::string> otherwise);

}  // namespace kerf::ops
