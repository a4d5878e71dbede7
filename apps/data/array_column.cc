#include "apps/data/array_column.h"

#include <cstring>
#include <utility>
#include <vector>

#include "ops/half.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

using ops::DType;

// `value_of`: what the numbers as they are stored stand for.
template <class Stored, class To, class ValueOf>
void convert_each(std::span<const std::byte> from, To* to, const ValueOf& value_of) {
  for (size_t at = 0; at < from.size(); at += sizeof(Stored), ++to) {
    Stored stored;
    std::memcpy(&stored, from.data() + at, sizeof(Stored));
    // NOLINTNEXTLINE(bugprone-signed-char-misuse): int8 is a number here, not a character
    *to = static_cast<To>(value_of(stored));
  }
}

template <class Stored, class To>
void convert_numbers(std::span<const std::byte> from, To* to) {
  convert_each<Stored>(from, to, [](Stored value) { return value; });
}

template <class To>
void convert(DType stored, std::span<const std::byte> from, To* to) {
  switch (stored) {
    case DType::kFloat32:
      return convert_numbers<float>(from, to);
    case DType::kFloat64:
      return convert_numbers<double>(from, to);
    case DType::kFloat16:
      return convert_each<uint16_t>(from, to, ops::from_float16);
    case DType::kBFloat16:
      return convert_each<uint16_t>(from, to, ops::from_bfloat16);
    case DType::kInt32:
      return convert_numbers<int32_t>(from, to);
    case DType::kInt64:
      return convert_numbers<int64_t>(from, to);
    case DType::kInt8:
      return convert_numbers<int8_t>(from, to);
    case DType::kInt16:
      return convert_numbers<int16_t>(from, to);
    case DType::kBool:
    case DType::kUint8:
      return convert_numbers<uint8_t>(from, to);
    case DType::kUint16:
      return convert_numbers<uint16_t>(from, to);
    case DType::kUint32:
      return convert_numbers<uint32_t>(from, to);
    case DType::kUint64:
      return convert_numbers<uint64_t>(from, to);
  }
}

}  // namespace

ArrayColumn::ArrayColumn(std::shared_ptr<const ByteSource> source) : array_(std::move(source)) {
  const std::string& where = this->source().origin();
  const std::vector<int64_t>& extents = array_.header().extents;
  if (extents.empty()) throw Error(ErrorCode::kUsage, "it has no axis of rows", where);
  array_.header().shape(where);
  for (size_t axis = 1; axis < extents.size(); ++axis) elements_ *= extents[axis];
  if (elements_ == 0) throw Error(ErrorCode::kUsage, "its rows are empty", where);
}

ops::Shape ArrayColumn::shape() const {
  ops::Shape shape(array_.header().extents);
  shape[0] = ops::kBatch;
  return shape;
}

void ArrayColumn::read(std::span<const int64_t> rows, int64_t first,
                       const ops::TensorView& to) const {
  KERF_CHECK(to.elements() == std::ssize(rows) * elements_, "{} elements for {} rows of {}",
             to.elements(), rows.size(), elements_);
  const size_t row_bytes = static_cast<size_t>(elements_) * ops::size_of(stored());
  std::vector<std::byte> piece;
  std::byte* at = to.data;
  for (size_t i = 0, end = 0; i < rows.size(); i = end) {
    for (end = i + 1; end < rows.size() && rows[end] == rows[end - 1] + 1;) ++end;
    const int64_t begin = first + rows[i];
    const auto count = static_cast<int64_t>(end - i);
    KERF_CHECK(rows[i] >= 0 && begin + count <= this->rows(), "row {} of {}", begin + count - 1,
               this->rows());
    if (stored() == to.dtype) {
      array_.read(begin * elements_, count * elements_, at);
    } else {
      piece.resize(static_cast<size_t>(count) * row_bytes);
      array_.read(begin * elements_, count * elements_, piece.data());
      if (to.dtype == DType::kFloat32) {
        convert(stored(), piece, reinterpret_cast<float*>(at));
      } else {
        KERF_CHECK(to.dtype == DType::kInt64, "{} of {}", ops::to_string(to.dtype),
                   ops::to_string(stored()));
        convert(stored(), piece, reinterpret_cast<int64_t*>(at));
      }
    }
    at += static_cast<size_t>(count * elements_) * ops::size_of(to.dtype);
  }
}

}  // namespace kerf::apps
