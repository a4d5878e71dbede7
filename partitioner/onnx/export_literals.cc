#include "partitioner/onnx/export_literals.h"

#include <cstdint>
#include <limits>
#include <type_traits>
#include <variant>

#include "ops/cpu/element.h"
#include "partitioner/onnx/graph.h"

namespace kerf::partitioner::onnx {
namespace {

using ops::DType;

template <class T>
T nearest(double number) {
  if constexpr (std::is_integral_v<T>) {
    constexpr auto kLeast = static_cast<double>(std::numeric_limits<T>::lowest());
    constexpr auto kMost = static_cast<double>(std::numeric_limits<T>::max());
    if (number >= kMost) return std::numeric_limits<T>::max();
    if (number <= kLeast) return std::numeric_limits<T>::lowest();
  }
  return static_cast<T>(number);
}

// Of a node of numbers of this type, whose bounds and fillings ONNX wants of the same.
ops::TensorLiteral literal_of_numbers(const std::vector<double>& numbers, const ops::Shape& shape,
                                      DType dtype) {
  const bool integers = ops::cpu::is_number(dtype) && !ops::is_floating(dtype);
  ops::TensorLiteral literal{integers ? dtype : DType::kFloat32, shape, {}};
  ops::cpu::with_number(literal.dtype, [&](auto zero) {
    for (const double number : numbers) {
      const auto value = nearest<decltype(zero)>(number);
      literal.bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  });
  return literal;
}

}  // namespace

std::string bytes_of_values(const std::vector<int64_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t)};
}

ops::TensorLiteral literal_of_attribute(const ops::Attribute& attribute, DType dtype,
                                        const std::string& where) {
  if (const auto* tensor = std::get_if<ops::TensorLiteral>(&attribute)) return *tensor;
  if (const auto* one = std::get_if<int64_t>(&attribute))
    return {DType::kInt64, {}, bytes_of_values({*one})};
  if (const auto* list = std::get_if<std::vector<int64_t>>(&attribute))
    return {DType::kInt64, {static_cast<int64_t>(list->size())}, bytes_of_values(*list)};
  std::vector<double> numbers;
  ops::Shape shape;
  if (const auto* one = std::get_if<double>(&attribute)) numbers = {*one};
  if (const auto* list = std::get_if<std::vector<double>>(&attribute)) {
    numbers = *list;
    shape = {static_cast<int64_t>(list->size())};
  }
  if (numbers.empty()) refuse("its attribute cannot be an input of ONNX's", where);
  return literal_of_numbers(numbers, shape, dtype);
}

}  // namespace kerf::partitioner::onnx
