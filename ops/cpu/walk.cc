#include "ops/cpu/walk.h"

#include <cstring>
#include <type_traits>

#include "ops/element_size.h"

namespace kerf::ops::cpu {
namespace {

constexpr int64_t kTile = 16;

template <class T, bool kAdd>
void put(T& to, T from) {
  if constexpr (kAdd)
    to += from;
  else
    to = from;
}

// Four rows of four become columns.
typedef uint32_t Four __attribute__((vector_size(16)));

void transpose_block(const uint32_t* from, int64_t from_row, uint32_t* to, int64_t to_row) {
  Four rows[4];
  for (int64_t i = 0; i < 4; ++i) std::memcpy(&rows[i], from + i * from_row, sizeof rows[i]);
  const Four low{0, 4, 1, 5};
  const Four high{2, 6, 3, 7};
  const Four firsts{0, 1, 4, 5};
  const Four seconds{2, 3, 6, 7};
  const Four pairs[4] = {
      __builtin_shuffle(rows[0], rows[1], low), __builtin_shuffle(rows[2], rows[3], low),
      __builtin_shuffle(rows[0], rows[1], high), __builtin_shuffle(rows[2], rows[3], high)};
  const Four columns[4] = {__builtin_shuffle(pairs[0], pairs[1], firsts),
                           __builtin_shuffle(pairs[0], pairs[1], seconds),
                           __builtin_shuffle(pairs[2], pairs[3], firsts),
                           __builtin_shuffle(pairs[2], pairs[3], seconds)};
  for (int64_t i = 0; i < 4; ++i) std::memcpy(to + i * to_row, &columns[i], sizeof columns[i]);
}

// `tile` is where `from` goes by one, `last` where `to` does.
template <class T, bool kAdd>
void copy_tiles(const T* from, const WalkAxis& tile, const WalkAxis& last, int64_t first, T* to) {
  const int64_t end = std::min(first + kTile, tile.extent);
  for (int64_t j = 0; j < last.extent; j += kTile) {
    if constexpr (std::is_same_v<T, uint32_t> && !kAdd)
      if (first + kTile <= tile.extent && j + kTile <= last.extent) {
        for (int64_t i = first; i < end; i += 4)
          for (int64_t k = j; k < j + kTile; k += 4)
            transpose_block(from + i + k * last.from, last.from, to + i * tile.to + k, tile.to);
        continue;
      }
    for (int64_t i = first; i < end; ++i)
      for (int64_t k = j; k < std::min(j + kTile, last.extent); ++k)
        put<T, kAdd>(to[i * tile.to + k], from[i + k * last.from]);
  }
}

// One row, along the walk's last axis.
template <class T, bool kAdd>
void move_row(const T* from, const WalkAxis& row, T* to) {
  constexpr int64_t kFew = 16;  // a call would cost more than they do
  if (row.from == 1 && row.to == 1 && row.extent > kFew) {
    if constexpr (kAdd)
      simd::add(from, row.extent, to);
    else
      std::memcpy(to, from, static_cast<size_t>(row.extent) * sizeof(T));
  } else if (row.from == 0 && row.to == 1) {
    const T value = *from;
    for (int64_t i = 0; i < row.extent; ++i) put<T, kAdd>(to[i], value);
  } else {
    for (int64_t i = 0; i < row.extent; ++i) put<T, kAdd>(to[i * row.to], from[i * row.from]);
  }
}

// The axis along which `from` goes by one, if rows of `to` would stride through it.
size_t tile_of(const Walk& walk) {
  const WalkAxis& last = walk[walk.count() - 1];
  if (last.to != 1 || last.from <= 1) return walk.count();
  return static_cast<size_t>(
      std::find_if(walk.begin(), walk.end(), [](const WalkAxis& axis) { return axis.from == 1; }) -
      walk.begin());
}

// No element of `to` is met twice.
template <class T, bool kAdd>
void move(Walk walk, const T* from, T* to) {
  if (walk.count() == 0) return put<T, kAdd>(to[walk.to()], from[walk.from()]);
  if (walk.count() == 1) {
    const WalkAxis row = walk[0];
    simd::parallel_pieces(row.extent, simd::kLeastElements, [&](int64_t begin, int64_t end) {
      move_row<T, kAdd>(from + walk.from() + begin * row.from, {end - begin, row.from, row.to},
                        to + walk.to() + begin * row.to);
    });
    return;
  }
  const WalkAxis last = walk[walk.count() - 1];
  const size_t tile_axis = tile_of(walk);
  const bool tiles = tile_axis < walk.count();
  const WalkAxis tile = tiles ? walk[tile_axis] : WalkAxis{};
  const int64_t strips = tiles ? (tile.extent + kTile - 1) / kTile : 1;
  const Walk rows = walk.without(walk.count() - 1);
  const Walk others = tiles ? rows.without(tile_axis) : rows;
  const int64_t work = last.extent * (tiles ? std::min(kTile, tile.extent) : 1);
  simd::parallel_pieces(others.indices() * strips, 1 + simd::kLeastElements / work,
                        [&](int64_t begin, int64_t end) {
                          WalkPlace place(others, begin / strips);
                          for (int64_t i = begin; i < end; ++i) {
                            if (tiles)
                              copy_tiles<T, kAdd>(from + place.from(), tile, last,
                                                  i % strips * kTile, to + place.to());
                            else
                              move_row<T, kAdd>(from + place.from(), last, to + place.to());
                            if ((i + 1) % strips == 0) place.next();
                          }
                        });
}

}  // namespace

void Walk::add(const WalkAxis& axis) {
  empty_ = empty_ || axis.extent == 0;
  if (axis.extent == 1) return;
  if (count_ > 0) {
    WalkAxis& outer = axes_[count_ - 1];
    if (outer.from == axis.extent * axis.from && outer.to == axis.extent * axis.to) {
      outer = {outer.extent * axis.extent, axis.from, axis.to};
      return;
    }
  }
  KERF_CHECK(count_ < axes_.size(), "a walk of more than {} axes", axes_.size());
  axes_[count_++] = axis;
}

int64_t Walk::indices() const {
  int64_t indices = empty_ ? 0 : 1;
  for (const WalkAxis& axis : *this) indices *= axis.extent;
  return indices;
}

Walk Walk::turned() const {
  Walk turned = *this;
  for (size_t i = 0; i < count_; ++i) std::swap(turned.axes_[i].from, turned.axes_[i].to);
  std::swap(turned.from_, turned.to_);
  return turned;
}

Walk Walk::without(size_t axis) const {
  Walk rest = *this;
  std::copy(axes_.data() + axis + 1, axes_.data() + count_, rest.axes_.data() + axis);
  --rest.count_;
  return rest;
}

Walk Walk::within(size_t axis, int64_t begin, int64_t end) const {
  Walk part = *this;
  part.axes_[axis].extent = end - begin;
  part.start(begin * axes_[axis].from, begin * axes_[axis].to);
  return part;
}

std::array<int64_t, Shape::kMaxRank> strides_of(const Shape& shape) {
  std::array<int64_t, Shape::kMaxRank> strides{};
  int64_t step = 1;
  for (int i = shape.rank(); i-- > 0; step *= shape[i]) strides[static_cast<size_t>(i)] = step;
  return strides;
}

WalkPlace::WalkPlace(const Walk& axes, int64_t i)
    : axes_(axes), from_(axes.from()), to_(axes.to()) {
  for (size_t a = axes.count(); a-- > 0;) {
    at_[a] = i % axes[a].extent;
    from_ += at_[a] * axes[a].from;
    to_ += at_[a] * axes[a].to;
    i /= axes[a].extent;
  }
}

void WalkPlace::next() {
  for (size_t a = axes_.count(); a-- > 0;) {
    const WalkAxis& axis = axes_[a];
    from_ += axis.from;
    to_ += axis.to;
    if (++at_[a] < axis.extent) return;
    at_[a] = 0;
    from_ -= axis.extent * axis.from;
    to_ -= axis.extent * axis.to;
  }
}

void copy(const Walk& walk, const std::byte* from, std::byte* to, size_t element) {
  if (walk.empty()) return;
  with_element_of(element, [&](auto zero) {
    using T = decltype(zero);
    move<T, false>(walk, reinterpret_cast<const T*>(from), reinterpret_cast<T*>(to));
  });
}

void add(const Walk& walk, const float* from, float* to) {
  if (walk.empty()) return;
  const auto stays = [](const WalkAxis& axis) { return axis.to == 0; };
  if (std::none_of(walk.begin(), walk.end(), stays)) return move<float, true>(walk, from, to);
  for_rows_in_order(walk, [&](int64_t at, int64_t place, const WalkAxis& row) {
    if (row.to == 0 && row.from == 1)
      to[place] += simd::sum_of(from + at, row.extent);
    else
      move_row<float, true>(from + at, row, to + place);
  });
}

}  // namespace kerf::ops::cpu
