// Tensors: element types, shapes, and views of dense row-major memory.
//
// A TensorView borrows memory; whoever made it keeps that memory alive. A Tensor owns its buffer.
// Both are plain values without synchronisation: one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "runtime/device.h"
#include "runtime/error.h"

namespace kerf::ops {

// The element types, in the order of their table in tensor.cc. Trained arithmetic is float32;
// memory, messages, layouts and files treat all alike.
enum class DType : uint8_t {
  kFloat32,
  kFloat64,
  kFloat16,
  kBFloat16,
  kInt32,
  kInt64,
  kBool,
  kInt8,
  kInt16,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
};

size_t size_of(DType dtype);
std::string_view to_string(DType dtype);  // "float32", "bfloat16", "int64", ...
// Whether gradients of such values exist.
bool is_floating(DType dtype);
// Throws Error{kUsage} that lists the known names.
DType parse_dtype(const std::string& name);

// The symbolic extent of an axis that has one index per sample. Micro-batches of one step may
// differ in size, so it is bound only when a micro-batch runs. c * kBatch is the extent of an axis
// that has c indices per sample: [N, T, D] read as [N * T, D] has the extent T * kBatch.
inline constexpr int64_t kBatch = -1;

// What a symbolic extent is for a micro-batch of `samples`; any other extent itself.
inline int64_t concrete_extent(int64_t extent, int64_t samples) {
  return extent < 0 ? -extent * samples : extent;
}

// Up to kMaxRank extents, stored in place, of which at most one is symbolic (negative), on any
// axis. Throws Error{kUsage} for more.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<int64_t> extents)
      : Shape(std::span<const int64_t>(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const int64_t> extents);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return extents_[axis]; }
  int64_t& operator[](int axis) { return extents_[axis]; }
  const int64_t* begin() const { return extents_.data(); }
  const int64_t* end() const { return extents_.data() + rank_; }
  // The axis whose extent is symbolic; -1 if there is none.
  int batch_axis() const;
  bool batched() const { return batch_axis() >= 0; }
  // The product of all extents; 1 for a scalar. Must not be batched. Throws Error{kUsage} where its
  // bytes could not be counted.
  int64_t elements() const;
  // The product of all extents, with those of one sample for a symbolic one.
  int64_t elements_per_sample() const;
  Shape with_batch(int64_t samples) const;  // concrete; unbatched shapes unchanged
  bool operator==(const Shape& other) const;

 private:
  std::array<int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

std::string to_string(const Shape& shape);  // "[N, 6, 28, 28]", "[12N, 64]"

// What is known of a value before it has memory.
struct ValueSpec {
  DType dtype = DType::kFloat32;
  Shape shape;

  size_t bytes(int64_t samples) const {
    return static_cast<size_t>(shape.with_batch(samples).elements()) * size_of(dtype);
  }
  bool operator==(const ValueSpec&) const = default;
};

struct TensorView {
  DType dtype = DType::kFloat32;
  Shape shape;  // concrete
  std::byte* data = nullptr;

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
  float* f32() const { return as<float>(); }
  int64_t* i64() const { return as<int64_t>(); }
  int64_t elements() const { return shape.elements(); }
  size_t bytes() const { return static_cast<size_t>(elements()) * size_of(dtype); }
};

class Tensor {
 public:
  Tensor() = default;
  // Uninitialised memory of `device`.
  Tensor(runtime::Device& device, DType dtype, const Shape& shape);

  TensorView view() const { return {dtype_, shape_, buffer_.data()}; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  explicit operator bool() const { return has_value_; }

 private:
  DType dtype_ = DType::kFloat32;
  Shape shape_;
  bool has_value_ = false;
  runtime::Buffer buffer_;
};

}  // namespace kerf::ops
