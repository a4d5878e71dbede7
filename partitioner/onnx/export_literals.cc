#include "partitioner/onnx/export_literals.h"

#include <cstdint>
#include <limits>
#include <variant>

#include "partitioner/onnx/graph.h"

namespace kerf::partitioner::onnx {
namespace {

using ops::DType;

// As the nearest values of an integer type, or as float32.
template <class T>
std::string bytes_as(const std::vector<double>& numbers) {
  constexpr auto kLeast = static_cast<double>(std::numeric_limits<T>::lowest());
  constexpr auto kMost = static_cast<double>(std::numeric_limits<T>::max());
  std::vector<T> values;
  for (const double number : numbers)
    values.push_back(number >= kMost    ? std::numeric_limits<T>::max()
                     : number <= kLeast ? std::numeric_limits<T>::lowest()
                                        : static_cast<T>(number));
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Of a node of numbers of this type, whose bounds and fillings ONNX wants of the same.
ops::TensorLiteral literal_of_numbers(const std::vector<double>& numbers, const ops::Shape& shape,
                                      DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return {dtype, shape, bytes_as<int8_t>(numbers)};
    case DType::kInt16:
      return {dtype, shape, bytes_as<int16_t>(numbers)};
    case DType::kInt32:
      return {dtype, shape, bytes_as<int32_t>(numbers)};
    case DType::kInt64:
      return {dtype, shape, bytes_as<int64_t>(numbers)};
    case DType::kUint8:
      return {dtype, shape, bytes_as<uint8_t>(numbers)};
    case DType::kUint16:
      return {dtype, shape, bytes_as<uint16_t>(numbers)};
    case DType::kUint32:
      return {dtype, shape, bytes_as<uint32_t>(numbers)};
    case DType::kUint64:
      return {dtype, shape, bytes_as<uint64_t>(numbers)};
    default:
      break;
  }
  std::string bytes;
  for (const double number : numbers) {
    const auto value = static_cast<float>(number);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return {DType::kFloat32, shape, bytes};
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
