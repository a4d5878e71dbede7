#include "ops/pack.h"

#include <algorithm>
#include <cstring>

#include "ops/simd/simd.h"

namespace kerf::ops {
namespace {

using Run = Region::Run;

// The piece's indices of one axis, numbered as the holder's local tensor numbers them.
std::vector<Range> local_ranges(const IndexSet& holder, const IndexSet& piece, int64_t extent) {
  const std::vector<Range> held = holder.ranges(extent);
  std::vector<Range> local;
  auto home = held.begin();
  int64_t before = 0;  // indices of the holder below *home
  for (const Range& range : piece.ranges(extent)) {
    while (home->end < range.end) before += (home++)->size();
    const int64_t begin = before + range.begin - home->begin;
    local.push_back({begin, begin + range.size()});
  }
  return IndexSet(std::move(local)).ranges(extent);
}

void append(std::vector<Run>& runs, const Run& run) {
  if (!runs.empty() && runs.back().at + runs.back().count == run.at)
    runs.back().count += run.count;
  else
    runs.push_back(run);
}

// Runs of the inner axes, and the elements that those axes have in the local tensor and the piece.
struct Inner {
  std::vector<Run> runs{{0, 0, 1}};
  int64_t local = 1;
  int64_t piece = 1;
};

Inner add_axis(const Inner& inner, const std::vector<Range>& ranges, int64_t extent) {
  Inner outer{{}, inner.local * extent, 0};
  for (const Range& range : ranges) {
    if (inner.piece == inner.local) {
      append(outer.runs, {range.begin * inner.local, outer.piece, range.size() * inner.local});
      outer.piece += range.size() * inner.piece;
      continue;
    }
    for (int64_t index = range.begin; index < range.end; ++index) {
      for (const Run& run : inner.runs)
        append(outer.runs, {index * inner.local + run.at, outer.piece + run.from, run.count});
      outer.piece += inner.piece;
    }
  }
  return outer;
}

Box checked(const Box& box, const Shape& shape) {
  Box clean = normalized(box, shape);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const IndexSet& set = clean.axes[static_cast<size_t>(axis)];
    if (set.is_all() || set.empty()) continue;
    KERF_CHECK(shape[axis] != kBatch, "box {} divides the batch", to_string(box));
    KERF_CHECK(set.ranges().back().end <= shape[axis], "box {} of a tensor of shape {}",
               to_string(box), to_string(shape));
  }
  return clean;
}

KERF_CLONES void add(const float* from, int64_t count, float* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

// A message of single elements (a free cut's) should not pay for a call of memcpy for each.
template <size_t kElement>
void copy(const std::byte* from, std::byte* to, int64_t count) {
  constexpr int64_t kFew = 8;
  if (count > kFew) {
    std::memcpy(to, from, static_cast<size_t>(count) * kElement);
    return;
  }
  for (int64_t i = 0; i < count; ++i, from += kElement, to += kElement)
    std::memcpy(to, from, kElement);
}

}  // namespace

Region::Region(const Box& holder, const Box& piece, const ValueSpec& spec)
    : dtype_(spec.dtype), batched_(spec.shape.batched()) {
  const Box held = checked(holder, spec.shape);
  const Box wanted = checked(piece, spec.shape);
  KERF_CHECK(held.contains(wanted), "{} does not hold {}", to_string(holder), to_string(piece));
  Inner all;
  for (int axis = spec.shape.rank() - 1; axis >= (batched_ ? 1 : 0); --axis) {
    const IndexSet& local = held.axes[static_cast<size_t>(axis)];
    const IndexSet part =
        wanted.empty() ? IndexSet::none() : wanted.axes[static_cast<size_t>(axis)];
    const int64_t extent = spec.shape[axis];
    all = add_axis(all, local_ranges(local, part, extent), local.size(extent));
  }
  runs_ = std::move(all.runs);
  if (wanted.empty()) runs_.clear();
  local_stride_ = all.local;
  piece_stride_ = wanted.empty() ? 0 : all.piece;
  everything_ = local_stride_ == piece_stride_;
}

size_t Region::bytes(int64_t samples) const {
  return static_cast<size_t>(repeats(samples) * piece_stride_) * size_of(dtype_);
}

template <class Move>
void Region::for_each_run(int64_t samples, const Move& move) const {
  if (everything_) {
    simd::parallel_pieces(repeats(samples) * piece_stride_, simd::kLeastElements,
                         [&](int64_t begin, int64_t end) { move(begin, begin, end - begin); });
    return;
  }
  const auto count = static_cast<int64_t>(runs_.size());
  if (count == 0) return;
  const int64_t least = simd::kLeastElements * count / std::max<int64_t>(piece_stride_, 1) + 1;
  simd::parallel_pieces(repeats(samples) * count, least, [&](int64_t begin, int64_t end) {
    int64_t sample = begin / count;
    int64_t index = begin % count;
    for (int64_t i = begin; i < end; ++i) {
      const Run& run = runs_[static_cast<size_t>(index)];
      move(sample * local_stride_ + run.at, sample * piece_stride_ + run.from, run.count);
      if (++index == count) {
        index = 0;
        ++sample;
      }
    }
  });
}

void Region::pack(const std::byte* local, std::byte* dense, int64_t samples) const {
  if (dtype_ == DType::kFloat32)
    for_each_run(samples, [&](int64_t at, int64_t from, int64_t count) {
      copy<4>(local + at * 4, dense + from * 4, count);
    });
  else
    for_each_run(samples, [&](int64_t at, int64_t from, int64_t count) {
      copy<8>(local + at * 8, dense + from * 8, count);
    });
}

void Region::unpack(const std::byte* dense, std::byte* local, int64_t samples) const {
  if (dtype_ == DType::kFloat32)
    for_each_run(samples, [&](int64_t at, int64_t from, int64_t count) {
      copy<4>(dense + from * 4, local + at * 4, count);
    });
  else
    for_each_run(samples, [&](int64_t at, int64_t from, int64_t count) {
      copy<8>(dense + from * 8, local + at * 8, count);
    });
}

void Region::unpack_add(const std::byte* dense, std::byte* local, int64_t samples) const {
  KERF_CHECK(dtype_ == DType::kFloat32, "sums of {}", to_string(dtype_));
  const auto* from_data = reinterpret_cast<const float*>(dense);
  auto* to_data = reinterpret_cast<float*>(local);
  for_each_run(samples, [&](int64_t at, int64_t from, int64_t count) {
    add(from_data + from, count, to_data + at);
  });
}

}  // namespace kerf::ops
