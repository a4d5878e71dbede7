#include "ops/tensor.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace kerf::ops {
namespace {

struct Type {
  std::string_view name;
  size_t bytes;
  bool floating;
};

// By DType.
constexpr std::array<Type, 13> kTypes = {{{"float32", 4, true},
                                          {"float64", 8, true},
                                          {"float16", 2, true},
                                          {"bfloat16", 2, true},
                                          {"int32", 4, false},
                                          {"int64", 8, false},
                                          {"bool", 1, false},
                                          {"int8", 1, false},
                                          {"int16", 2, false},
                                          {"uint8", 1, false},
                                          {"uint16", 2, false},
                                          {"uint32", 4, false},
                                          {"uint64", 8, false}}};

const Type& type_of(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  KERF_CHECK(index < kTypes.size(), "element type {} is unknown", index);
  return kTypes[index];
}

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

size_t size_of(DType dtype) { return type_of(dtype).bytes; }

std::string_view to_string(DType dtype) { return type_of(dtype).name; }

bool is_floating(DType dtype) { return type_of(dtype).floating; }

DType parse_dtype(const std::string& name) {
  std::vector<std::string_view> known;
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (name == kTypes[i].name) return static_cast<DType>(i);
    known.push_back(kTypes[i].name);
  }
  throw Error(ErrorCode::kUsage, format("element type \"{}\" is unknown; use one of {}", name,
                                        fmt::join(known, ", ")));
}

Shape::Shape(std::span<const int64_t> extents) {
  if (extents.size() > kMaxRank)
    throw Error(ErrorCode::kUsage,
                format("a tensor has {} axes; at most {} are supported", extents.size(), kMaxRank));
  std::copy(extents.begin(), extents.end(), extents_.begin());
  rank_ = static_cast<int>(extents.size());
  for (int axis = batch_axis() + 1; batched() && axis < rank_; ++axis)
    if (extents_[axis] < 0)
      throw Error(ErrorCode::kUsage,
                  format("axes {} and {} both count samples; one axis may", batch_axis(), axis));
}

int Shape::batch_axis() const {
  for (int axis = 0; axis < rank_; ++axis)
    if (extents_[axis] < 0) return axis;
  return -1;
}

int64_t Shape::elements() const {
  KERF_CHECK(!batched(), "{} has no number of elements before its batch is known",
             to_string(*this));
  return checked_product({begin(), end()}, *this);
}

int64_t Shape::elements_per_sample() const {
  const Shape one = with_batch(1);
  return checked_product({one.begin(), one.end()}, *this);
}

Shape Shape::with_batch(int64_t samples) const {
  Shape result = *this;
  const int axis = batch_axis();
  if (axis < 0) return result;
  KERF_CHECK(samples >= 0, "a batch of {} samples", samples);
  result[axis] = concrete_extent(result[axis], samples);
  return result;
}

bool Shape::operator==(const Shape& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axis > 0) text += ", ";
    if (shape[axis] < 0)
      text += shape[axis] == kBatch ? "N" : format("{}N", -shape[axis]);
    else
      text += std::to_string(shape[axis]);
  }
  return text + "]";
}

Tensor::Tensor(runtime::Device& device, DType dtype, const Shape& shape)
    : dtype_(dtype),
      shape_(shape),
      has_value_(true),
      buffer_(device.allocate(static_cast<size_t>(shape.elements()) * size_of(dtype))) {}

}  // namespace kerf::ops
