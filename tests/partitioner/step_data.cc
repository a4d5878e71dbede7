#include "tests/partitioner/step_data.h"

#include <cmath>
#include <cstring>

namespace kerf::partitioner {
namespace {

constexpr uint64_t kSeed = 7;

template <class Number, class Draw>
std::vector<std::byte> fill(int64_t count, const Draw& draw) {
  std::vector<std::byte> bytes(static_cast<size_t>(count) * sizeof(Number));
  for (int64_t i = 0; i < count; ++i) {
    const Number number = draw(i);
    std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(Number), &number, sizeof(Number));
  }
  return bytes;
}

// Its number among inputs and labels, which rewriting a model leaves as it is.
uint32_t number_of_fed(const Model& model, ValueId value) {
  uint32_t number = 0;
  for (ValueId before = 0; before < value; ++before)
    if (model.value(before).producer < 0 && !ops::is_kept(model.value(before).role)) ++number;
  return number;
}

}  // namespace

float small_number(uint32_t stream, int64_t index) {
  const float number = ops::uniform({kSeed, stream, 0, 0}, index) * 8 - 2;
  return number < 2 ? std::floor(number) + (number < 0 ? 0.0F : 1.0F) : 0.0F;
}

std::vector<std::byte> kept_data(const Value& value, Numbers numbers) {
  const ops::Shape& shape = value.spec.shape;
  if (value.literal != nullptr) {
    const auto* bytes = reinterpret_cast<const std::byte*>(value.literal->bytes.data());
    return {bytes, bytes + value.literal->bytes.size()};
  }
  if (numbers == Numbers::kWhole)
    return fill<float>(shape.elements(), [&](int64_t i) {
      return small_number(ops::kParameterPurpose + value.parameter, i);
    });
  std::vector<std::byte> bytes(value.spec.bytes(0));
  if (value.contents != nullptr) {
    value.contents->read(0, bytes);
    return bytes;
  }
  ops::initialize({value.spec.dtype, shape, bytes.data()}, ops::Box::whole(shape.rank()), shape,
                  value.initializer, kSeed, value.parameter);
  return bytes;
}

std::vector<std::byte> row_data(const Model& model, ValueId value, int64_t first, int64_t count,
                                Numbers numbers) {
  const ops::ValueSpec& spec = model.value(value).spec;
  const int64_t row = spec.shape.elements_per_sample();
  const uint32_t stream = number_of_fed(model, value);
  if (spec.dtype == ops::DType::kInt64)
    return fill<int64_t>(count * row, [&](int64_t i) { return (first * row + i) % 3; });
  return fill<float>(count * row, [&](int64_t i) {
    const int64_t global = first * row + i;
    return numbers == Numbers::kWhole ? small_number(stream, global)
                                      : ops::normal({11, stream, 0, 0}, global);
  });
}

}  // namespace kerf::partitioner
