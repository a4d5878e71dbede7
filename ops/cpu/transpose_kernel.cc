// Transpose on the CPU: rows where the last axis stays the last, else tiles of two axes, so that
// neither side strides through the cache.
#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "ops/kernel.h"
#include "ops/operators/transpose.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

constexpr int64_t kTile = 16;

// The axes of the output, the last the fastest, with neighbours that stay neighbours merged.
struct Axis {
  int64_t extent = 1;
  int64_t from = 0;  // stride in the input, in elements
  int64_t to = 0;    // in the output
};

class Axes {
 public:
  bool empty() const { return count_ == 0; }
  Axis& back() { return axes_[count_ - 1]; }
  void push_back(const Axis& axis) { axes_[count_++] = axis; }
  void erase(Axis* at) {
    std::copy(at + 1, end(), at);
    --count_;
  }
  Axis* begin() { return axes_.data(); }
  Axis* end() { return axes_.data() + count_; }
  const Axis* begin() const { return axes_.data(); }
  const Axis* end() const { return axes_.data() + count_; }

 private:
  std::array<Axis, Shape::kMaxRank> axes_{};
  size_t count_ = 0;
};

Axes axes_of(const Shape& input, const std::vector<int>& perm) {
  std::array<int64_t, Shape::kMaxRank> strides{};
  int64_t step = 1;
  for (int i = input.rank() - 1; i >= 0; --i) {
    strides[static_cast<size_t>(i)] = step;
    step *= input[i];
  }
  Axes axes;
  for (const int axis : perm) {
    const Axis next{input[axis], strides[static_cast<size_t>(axis)], 0};
    if (next.extent == 1) continue;
    if (!axes.empty() && axes.back().from == next.extent * next.from)
      axes.back() = {axes.back().extent * next.extent, next.from, 0};
    else
      axes.push_back(next);
  }
  if (axes.empty()) axes.push_back({1, 1, 0});
  int64_t stride = 1;
  for (Axis* axis = axes.end(); axis-- != axes.begin();) {
    axis->to = stride;
    stride *= axis->extent;
  }
  return axes;
}

// Where index `i` of some axes, flattened, lies on both sides.
struct Offsets {
  int64_t from = 0;
  int64_t to = 0;
};

Offsets offsets_of(const Axes& axes, int64_t i) {
  Offsets offsets;
  for (const Axis* axis = axes.end(); axis-- != axes.begin();) {
    offsets.from += i % axis->extent * axis->from;
    offsets.to += i % axis->extent * axis->to;
    i /= axis->extent;
  }
  return offsets;
}

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

// `tile` is the input's fastest axis, a row of the tiles; `last` the output's.
template <class T, bool kAdd>
void copy_tiles(const T* from, const Axis& tile, const Axis& last, int64_t first, T* to) {
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
        put<T, kAdd>(to[i * tile.to + k], from[i * tile.from + k * last.from]);
  }
}

template <class T, bool kAdd>
void transpose(const T* from, Axes axes, T* to) {
  const Axis last = axes.back();
  axes.erase(&axes.back());
  Axis tile;  // of one index, where the input's rows are the output's
  if (last.from != 1) {
    Axis* fastest =
        std::find_if(axes.begin(), axes.end(), [](const Axis& axis) { return axis.from == 1; });
    tile = *fastest;
    axes.erase(fastest);
  }
  int64_t others = 1;
  for (const Axis& axis : axes) others *= axis.extent;
  const int64_t strips = (tile.extent + kTile - 1) / kTile;
  const int64_t least = 1 + simd::kLeastElements / (last.extent * std::min(kTile, tile.extent));
  simd::parallel_pieces(others * strips, least, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Offsets at = offsets_of(axes, i / strips);
      copy_tiles<T, kAdd>(from + at.from, tile, last, i % strips * kTile, to + at.to);
    }
  });
}

// By element type only the size matters, but for adding, which is of float32.
void transpose(const TensorView& from, const std::vector<int>& perm, const TensorView& to,
               bool accumulate) {
  if (from.elements() == 0) return;
  const Axes axes = axes_of(from.shape, perm);
  if (accumulate) return transpose<float, true>(from.f32(), axes, to.f32());
  switch (size_of(from.dtype)) {
    case 1:
      return transpose<uint8_t, false>(from.as<uint8_t>(), axes, to.as<uint8_t>());
    case 2:
      return transpose<uint16_t, false>(from.as<uint16_t>(), axes, to.as<uint16_t>());
    case 4:
      return transpose<uint32_t, false>(from.as<uint32_t>(), axes, to.as<uint32_t>());
    default:
      return transpose<uint64_t, false>(from.as<uint64_t>(), axes, to.as<uint64_t>());
  }
}

class TransposeKernel final : public PlainKernel {
 public:
  explicit TransposeKernel(const std::vector<int>& perm) : perm_(perm), back_(perm.size()) {
    for (size_t i = 0; i < perm.size(); ++i)
      back_[static_cast<size_t>(perm[i])] = static_cast<int>(i);
  }

  void forward(const Call& call) override {
    transpose(call.inputs[0], perm_, call.outputs[0], false);
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets)
      transpose(call.output_gradients[0], back_, target.to, target.accumulate);
  }

 private:
  std::vector<int> perm_;
  std::vector<int> back_;
};

}  // namespace

KernelEntries register_transpose() {
  return {{.op = "Transpose", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<TransposeKernel>(site.as<Transpose>().perm());
           }}};
}

}  // namespace kerf::ops::cpu
