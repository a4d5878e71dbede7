// Walks over two tensors at once: loops along which each side steps by a stride of its own. Copies,
// transposes, slices, repetitions and their sums are walks.
//
// Plain values; made per call, since extents follow the micro-batch.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "ops/simd/simd.h"
#include "ops/tensor.h"

namespace kerf::ops::cpu {

struct WalkAxis {
  int64_t extent = 1;
  int64_t from = 0;  // stride in elements; 0 where the side stays, negative where it goes back
  int64_t to = 0;
};

class Walk {
 public:
  // The next axis inwards. Neighbours along which both sides step as along one become one.
  void add(const WalkAxis& axis);
  // Where both sides begin, in elements.
  void start(int64_t from, int64_t to) {
    from_ += from;
    to_ += to;
  }

  bool empty() const { return empty_; }
  int64_t from() const { return from_; }
  int64_t to() const { return to_; }
  size_t count() const { return count_; }
  // The slowest first; of more than one index each.
  const WalkAxis* begin() const { return axes_.data(); }
  const WalkAxis* end() const { return axes_.data() + count_; }
  const WalkAxis& operator[](size_t axis) const { return axes_[axis]; }
  int64_t indices() const;  // of all axes together

  // From and to exchanged.
  Walk turned() const;
  // The axis taken out of the walk, and a part of it only.
  Walk without(size_t axis) const;
  Walk within(size_t axis, int64_t begin, int64_t end) const;

 private:
  std::array<WalkAxis, 2 * Shape::kMaxRank> axes_{};
  size_t count_ = 0;
  int64_t from_ = 0;
  int64_t to_ = 0;
  bool empty_ = false;
};

// The strides of a dense tensor, in elements.
std::array<int64_t, Shape::kMaxRank> strides_of(const Shape& shape);

// Both sides' places along some axes of a walk, the last the fastest.
class WalkPlace {
 public:
  // At index `i` of the axes, flattened.
  WalkPlace(const Walk& axes, int64_t i);
  int64_t from() const { return from_; }
  int64_t to() const { return to_; }
  void next();

 private:
  const Walk& axes_;
  std::array<int64_t, 2 * Shape::kMaxRank> at_{};
  int64_t from_;
  int64_t to_;
};

// Calls row(from, to, last axis) for every row along the walk's last axis, in order. Threads take
// indices of an axis along which `to` moves, so that no order depends on their number. Of a walk
// that is not empty.
template <class Row>
void for_rows_in_order(const Walk& walk, const Row& row) {
  const auto rows_of = [&](const Walk& part) {
    if (part.count() == 0) return row(part.from(), part.to(), WalkAxis{1, 1, 1});
    const Walk rows = part.without(part.count() - 1);
    WalkPlace place(rows, 0);
    for (int64_t i = rows.indices(); i > 0; --i, place.next())
      row(place.from(), place.to(), part[part.count() - 1]);
  };
  const WalkAxis* moving =
      std::find_if(walk.begin(), walk.end(), [](const WalkAxis& axis) { return axis.to != 0; });
  if (moving == walk.end()) return rows_of(walk);
  const auto axis = static_cast<size_t>(moving - walk.begin());
  const int64_t others = walk.indices() / moving->extent;
  simd::parallel_pieces(
      moving->extent, 1 + simd::kLeastElements / others,
      [&](int64_t begin, int64_t end) { rows_of(walk.within(axis, begin, end)); });
}

// to = from, of elements of so many bytes. No element of `to` may be met twice.
void copy(const Walk& walk, const std::byte* from, std::byte* to, size_t element);
// to += from. What is met more than once is summed in the walk's order, whatever the number of
// threads.
void add(const Walk& walk, const float* from, float* to);

}  // namespace kerf::ops::cpu
