#include "partitioner/onnx/known.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <type_traits>

#include "ops/cpu/element.h"
#include "partitioner/onnx/weight_file.h"

namespace kerf::partitioner::onnx {
namespace {

using ops::DType;

// Calls visit(a zero of the C++ type) for types of integers and truth values; false for others.
template <class Visit>
bool visit_integer_type(DType dtype, const Visit& visit) {
  if (dtype == DType::kBool) dtype = DType::kUint8;
  if (dtype == DType::kUint64) return false;  // of which not every number is an int64
  if (!ops::cpu::is_number(dtype) || ops::is_floating(dtype)) return false;
  ops::cpu::with_number(dtype, [&](auto zero) {
    if constexpr (std::is_integral_v<decltype(zero)>) visit(zero);
  });
  return true;
}

template <class T>
std::string bytes_of_fill(double fill, size_t count) {
  std::string bytes(count * sizeof(T), '\0');
  const auto one = static_cast<T>(fill);
  for (size_t i = 0; i < count; ++i) std::memcpy(bytes.data() + i * sizeof(T), &one, sizeof(T));
  return bytes;
}

}  // namespace

std::optional<Integers> integers_of(const ops::TensorLiteral& literal) {
  const auto count = static_cast<size_t>(literal.shape.elements());
  if (count > kMostIntegers) return std::nullopt;
  Integers result{literal.dtype, {literal.shape.begin(), literal.shape.end()}, {}};
  const bool known = visit_integer_type(literal.dtype, [&](auto zero) {
    for (size_t i = 0; i < count; ++i) {
      decltype(zero) value;
      std::memcpy(&value, literal.bytes.data() + i * sizeof(value), sizeof(value));
      result.elements.push_back({0, static_cast<int64_t>(value)});
    }
  });
  return known ? std::optional(std::move(result)) : std::nullopt;
}

std::optional<Integers> integers_of(const Fixed& constant) {
  const bool integral = visit_integer_type(constant.spec.dtype, [](auto) {});
  if (!integral || constant.spec.shape.elements() > static_cast<int64_t>(kMostIntegers))
    return std::nullopt;
  return integers_of(literal_of(constant, kMostIntegers * sizeof(int64_t)));
}

std::optional<ops::TensorLiteral> literal_of(const Integers& integers) {
  const auto values = fixed_elements(integers);
  if (!values) return std::nullopt;
  ops::TensorLiteral literal{integers.dtype, ops::Shape(integers.shape), {}};
  visit_integer_type(integers.dtype, [&](auto zero) {
    for (const int64_t value : *values) {
      const auto narrow = static_cast<decltype(zero)>(value);
      literal.bytes.append(reinterpret_cast<const char*>(&narrow), sizeof(narrow));
    }
  });
  return literal;
}

Fixed fixed_of(const std::string& name, ops::TensorLiteral literal) {
  return {name,
          {given_as(literal.dtype), literal.shape},
          contents_of(std::move(literal.bytes), literal.dtype)};
}

ops::TensorLiteral literal_of(const Fixed& constant, size_t most_bytes) {
  if (constant.contents != nullptr)
    return literal_of(constant.name, constant.spec, *constant.contents, most_bytes);
  using Kind = ops::Initializer::Kind;
  if (constant.initializer.kind != Kind::kConstant)
    throw Error(ErrorCode::kUsage,
                format("{} begins anew, as --head asks, and the file computes a constant of it: "
                       "leave --head out, or export the model with a Linear as its last layer",
                       constant.name));
  if (constant.spec.bytes(0) > most_bytes)
    throw Error(ErrorCode::kUsage, format("{} is too large for a constant", constant.name));
  const double fill = constant.initializer.scale;
  const auto count = static_cast<size_t>(constant.spec.shape.elements());
  ops::TensorLiteral literal{constant.spec.dtype, constant.spec.shape, {}};
  if (constant.spec.dtype == DType::kFloat32)
    literal.bytes = bytes_of_fill<float>(fill, count);
  else
    visit_integer_type(constant.spec.dtype, [&](auto zero) {
      literal.bytes = bytes_of_fill<decltype(zero)>(fill, count);
    });
  return literal;
}

std::optional<std::vector<int64_t>> fixed_elements(const Integers& integers) {
  std::vector<int64_t> values;
  for (const Affine& element : integers.elements) {
    if (!element.is_fixed()) return std::nullopt;
    values.push_back(element.fixed);
  }
  return values;
}

Affine narrowed(const Affine& element, DType dtype) {
  if (!element.is_fixed()) return element;
  if (dtype == DType::kBool) return {0, element.fixed != 0 ? 1 : 0};
  Affine narrow = element;
  visit_integer_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    constexpr int kAbove = 64 - 8 * static_cast<int>(sizeof(T));  // bits that it has not
    narrow.fixed = static_cast<int64_t>(
        static_cast<Wide>(static_cast<uint64_t>(element.fixed) << kAbove) >> kAbove);
  });
  return narrow;
}

Integers list_of(std::vector<Affine> elements) {
  return {DType::kInt64, {static_cast<int64_t>(elements.size())}, std::move(elements)};
}

int64_t elements_in(const std::vector<int64_t>& shape) {
  const int64_t elements = ops::Shape(shape).elements();
  if (elements > 0) return elements;
  int64_t others = 1;
  for (const int64_t extent : shape)
    if (extent != 0 && (__builtin_mul_overflow(others, extent, &others) ||
                        others > static_cast<int64_t>(kMostIntegers)))
      throw Error(ErrorCode::kUsage,
                  format("an empty tensor of shape [{}]: {} is the most that its "
                         "other extents may be together",
                         fmt::join(shape, ", "), kMostIntegers));
  return elements;
}

}  // namespace kerf::partitioner::onnx
