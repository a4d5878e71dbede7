#include "ops/tensor.h"

#include <algorithm>
#include <limits>

namespace kerf::ops {
namespace {

// Extents come from model files: a product that overflows must not become a small allocation.
int64_t checked_product(std::span<const int64_t> extents, const Shape& shape) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 8;  // bytes of the widest type
  int64_t product = 1;
  bool fits = true;
  for (const int64_t extent : extents) {
    if (extent == 0) return 0;
    fits = fits && !__builtin_mul_overflow(product, extent, &product) && product <= kMost;
  }
  if (!fits)
    throw Error(
        ErrorCode::kUsage,
        format("a tensor of shape {} has more elements than can be counted", to_string(shape)));
  return product;
}

}  // namespace

size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return 4;
    case DType::kInt64:
      return 8;
  }
  KERF_CHECK(false, "element type {} is unknown", static_cast<int>(dtype));
  return 0;
}

std::string_view to_string(DType dtype) { return dtype == DType::kFloat32 ? "float32" : "int64"; }

DType parse_dtype(const std::string& name) {
  for (const DType dtype : {DType::kFloat32, DType::kInt64})
    if (name == to_string(dtype)) return dtype;
  throw Error(ErrorCode::kUsage,
              format("element type \"{}\" is unknown; use float32 or int64", name));
}

Shape::Shape(std::span<const int64_t> extents) {
  if (extents.size() > kMaxRank)
    throw Error(ErrorCode::kUsage,
                format("a tensor has {} axes; at most {} are supported", extents.size(), kMaxRank));
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    if (extents[axis] < 0 && !(axis == 0 && extents[axis] == kBatch))
      throw Error(ErrorCode::kUsage, format("axis {} has the extent {}", axis, extents[axis]));
  }
  std::copy(extents.begin(), extents.end(), extents_.begin());
  rank_ = static_cast<int>(extents.size());
}

int64_t Shape::elements() const {
  KERF_CHECK(!batched(), "{} has no number of elements before its batch is known",
             to_string(*this));
  return checked_product({begin(), end()}, *this);
}

int64_t Shape::elements_per_sample() const {
  return checked_product({begin() + (batched() ? 1 : 0), end()}, *this);
}

Shape Shape::with_batch(int64_t samples) const {
  Shape result = *this;
  if (!batched()) return result;
  KERF_CHECK(samples >= 0, "a batch of {} samples", samples);
  result[0] = samples;
  return result;
}

bool Shape::operator==(const Shape& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axis > 0) text += ", ";
    text += axis == 0 && shape.batched() ? "N" : std::to_string(shape[axis]);
  }
  return text + "]";
}

Tensor::Tensor(runtime::Device& device, DType dtype, const Shape& shape)
    : dtype_(dtype),
      shape_(shape),
      has_value_(true),
      buffer_(device.allocate(static_cast<size_t>(shape.elements()) * size_of(dtype))) {}

}  // namespace kerf::ops
