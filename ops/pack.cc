#include "ops/pack.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "ops/simd/simd.h"

namespace kerf::ops {
namespace {

using Run = Selection::Run;

constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::max() / 4;

void append(std::vector<Run>& runs, const Run& run) {
  if (!runs.empty() && runs.back().at + runs.back().count == run.at &&
      runs.back().from + runs.back().count == run.from)
    runs.back().count += run.count;
  else
    runs.push_back(run);
}

Box checked(const Box& box, const Shape& shape) {
  Box clean = normalized(box, shape);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const IndexSet& set = clean.axes[static_cast<size_t>(axis)];
    if (set.is_all() || set.empty() || shape[axis] < 0) continue;
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

// Calls work(constant of the element's size) for the sizes that element types have.
template <class Work>
void with_size(DType dtype, const Work& work) {
  switch (size_of(dtype)) {
    case 1:
      return work(std::integral_constant<size_t, 1>());
    case 2:
      return work(std::integral_constant<size_t, 2>());
    case 4:
      return work(std::integral_constant<size_t, 4>());
    default:
      return work(std::integral_constant<size_t, 8>());
  }
}

}  // namespace

struct Selection::Axis {
  std::vector<Stretch> stretches;
  int64_t local = 0;  // indices held; of the batch axis, by clip() of `held`
  IndexSet held;
  int64_t extent = 0;  // maybe symbolic

  static Axis of(const IndexSet& held, const IndexSet& wanted, int64_t extent);
  int64_t held_count(int64_t samples) const;
  int64_t piece_count(int64_t samples) const;
};

struct Selection::Facts {
  std::vector<Axis> axes;
  std::vector<int> order;
  int batch = -1;              // axis; -1: none
  std::vector<Stretch> outer;  // of the axes before the batch, one index each
  std::vector<Run> runs;       // of the axes after it
  int64_t inner_local = 1;
  int64_t inner_piece = 1;
  int64_t outer_piece = 1;
  DType dtype = DType::kFloat32;
  bool nothing = false;
  bool everything = false;

  void find_runs();
  void find_outer();
};

Selection::Axis Selection::Axis::of(const IndexSet& held, const IndexSet& wanted, int64_t extent) {
  Axis axis{{}, 0, held, extent};
  const Range all{0, extent < 0 ? kNoEnd : extent};
  const auto ranges = [&](const IndexSet& set) {
    if (set.is_all()) return std::span(&all, extent == 0 ? size_t{0} : size_t{1});
    return set.ranges();
  };
  const std::span<const Range> home_ranges = ranges(held);
  auto home = home_ranges.begin();
  int64_t before = 0;  // indices of the holder below *home
  int64_t piece = 0;
  for (const Range& range : ranges(wanted)) {
    while (home->end < range.end) before += (home++)->size();
    axis.stretches.push_back(
        {range.begin, before + range.begin - home->begin, piece, range.size()});
    piece += range.size();
  }
  axis.local = extent < 0 ? 0 : held.size(extent);
  return axis;
}

int64_t Selection::Axis::held_count(int64_t samples) const {
  if (extent >= 0) return local;
  return clipped_size(held, concrete_extent(extent, samples));
}

int64_t Selection::Axis::piece_count(int64_t samples) const {
  int64_t count = 0;
  const int64_t end = extent < 0 ? concrete_extent(extent, samples) : kNoEnd;
  for (const Stretch& stretch : stretches) count += stretch.clipped(end);
  return count;
}

Selection::Selection(const Box& holder, const Box& piece, const ValueSpec& spec,
                     std::vector<int> order) {
  const Box held = checked(holder, spec.shape);
  const Box wanted = checked(piece, spec.shape);
  KERF_CHECK(held.contains(wanted), "{} does not hold {}", to_string(holder), to_string(piece));
  const int rank = spec.shape.rank();
  KERF_CHECK(order.empty() || static_cast<int>(order.size()) == rank, "an order of {} axes for {}",
             order.size(), to_string(spec.shape));
  if (std::is_sorted(order.begin(), order.end())) order.clear();
  const auto facts = std::make_shared<Facts>();
  facts_ = facts;
  facts->order = std::move(order);
  facts->batch = spec.shape.batch_axis();
  facts->dtype = spec.dtype;
  facts->nothing = wanted.empty();
  if (facts->nothing) return;
  facts->everything = facts->order.empty() && held == wanted;
  facts->axes.reserve(static_cast<size_t>(rank));
  for (int axis = 0; axis < rank; ++axis)
    facts->axes.push_back(Axis::of(held.axes[static_cast<size_t>(axis)],
                                   wanted.axes[static_cast<size_t>(axis)], spec.shape[axis]));
  facts->find_runs();
  facts->find_outer();
}

void Selection::Facts::find_runs() {
  runs = {{0, 0, 1}};
  for (int axis = static_cast<int>(axes.size()) - 1; axis > batch; --axis) {
    const Axis& one = axes[static_cast<size_t>(axis)];
    std::vector<Run> longer;
    int64_t count = 0;
    for (const Stretch& s : one.stretches) {
      count += s.count;
      if (inner_piece == inner_local) {
        append(longer, {s.local * inner_local, s.piece * inner_piece, s.count * inner_local});
        continue;
      }
      for (int64_t i = 0; i < s.count; ++i)
        for (const Run& run : runs)
          append(longer, {(s.local + i) * inner_local + run.at,
                          (s.piece + i) * inner_piece + run.from, run.count});
    }
    runs = std::move(longer);
    inner_local *= one.local;
    inner_piece *= count;
  }
}

void Selection::Facts::find_outer() {
  outer = {{}};
  int64_t outer_local = 1;
  for (int axis = batch - 1; axis >= 0; --axis) {
    const Axis& one = axes[static_cast<size_t>(axis)];
    std::vector<Stretch> all;
    int64_t count = 0;
    for (const Stretch& s : one.stretches) {
      count += s.count;
      for (int64_t i = 0; i < s.count; ++i)
        for (const Stretch& inner : outer)
          all.push_back({0, (s.local + i) * outer_local + inner.local,
                         (s.piece + i) * outer_piece + inner.piece, 1});
    }
    outer = std::move(all);
    outer_local *= one.local;
    outer_piece *= count;
  }
}

const Selection::Facts& Selection::facts() const {
  KERF_CHECK(facts_ != nullptr, "a selection that nobody made");
  return *facts_;
}

bool Selection::everything() const { return facts().everything; }
DType Selection::dtype() const { return facts().dtype; }
std::span<const Run> Selection::runs() const { return facts().runs; }

size_t Selection::bytes(int64_t samples) const {
  const Facts& f = facts();
  if (f.nothing) return 0;
  const int64_t rows = f.batch < 0 ? 1 : f.axes[static_cast<size_t>(f.batch)].piece_count(samples);
  return static_cast<size_t>(f.outer_piece * rows * f.inner_piece) * size_of(f.dtype);
}

template <class Move>
void Selection::for_each_run(int64_t samples, const Move& move) const {
  const Facts& f = facts();
  if (f.nothing) return;
  if (f.everything) {
    simd::parallel_pieces(static_cast<int64_t>(bytes(samples) / size_of(f.dtype)),
                          simd::kLeastElements,
                          [&](int64_t begin, int64_t end) { move(begin, begin, end - begin); });
    return;
  }
  if (!f.order.empty()) return for_each_ordered(samples, move);
  static const std::vector<Stretch> kOne{{0, 0, 0, 1}};
  const bool batched = f.batch >= 0;
  const Axis* rows = batched ? &f.axes[static_cast<size_t>(f.batch)] : nullptr;
  const int64_t extent = batched ? concrete_extent(rows->extent, samples) : 1;
  const int64_t held = batched ? rows->held_count(samples) : 1;
  const int64_t wanted = batched ? rows->piece_count(samples) : 1;
  const int64_t per_row = std::max<int64_t>(f.inner_piece, 1);
  for (const Stretch& outer : f.outer)
    for (const Stretch& s : batched ? rows->stretches : kOne) {
      const int64_t count = s.clipped(extent);
      const int64_t at = (outer.local * held + s.local) * f.inner_local;
      const int64_t from = (outer.piece * wanted + s.piece) * f.inner_piece;
      if (f.inner_piece == f.inner_local) {
        simd::parallel_pieces(
            count * per_row, simd::kLeastElements,
            [&](int64_t begin, int64_t end) { move(at + begin, from + begin, end - begin); });
        continue;
      }
      // Rows and their runs together, so that a tensor without rows is shared out too.
      const auto runs = static_cast<int64_t>(f.runs.size());
      const int64_t least = simd::kLeastElements * runs / per_row + 1;
      simd::parallel_pieces(count * runs, least, [&](int64_t begin, int64_t end) {
        int64_t row = begin / runs;
        int64_t index = begin % runs;
        for (int64_t i = begin; i < end; ++i) {
          const Run& run = f.runs[static_cast<size_t>(index)];
          move(at + row * f.inner_local + run.at, from + row * f.inner_piece + run.from, run.count);
          if (++index == runs) {
            index = 0;
            ++row;
          }
        }
      });
    }
}

std::vector<Selection::AxisMap> Selection::axis_maps(int64_t samples) const {
  const Facts& f = facts();
  const size_t rank = f.axes.size();
  std::vector<AxisMap> maps(rank);
  int64_t stride = 1;
  for (size_t i = rank; i-- > 0;) {
    const size_t axis = f.order.empty() ? i : static_cast<size_t>(f.order[i]);
    maps[axis].local_stride = stride;
    stride *= f.axes[axis].held_count(samples);
  }
  stride = 1;
  for (size_t axis = rank; axis-- > 0;) {
    const Axis& one = f.axes[axis];
    maps[axis].stretches = one.stretches;
    maps[axis].extent = one.extent < 0 ? concrete_extent(one.extent, samples) : kNoEnd;
    maps[axis].piece_stride = stride;
    stride *= one.piece_count(samples);
  }
  return maps;
}

// Element by element: the piece's axes in their own order, the local tensor's by strides.
template <class Move>
void Selection::for_each_ordered(int64_t samples, const Move& move) const {
  const std::vector<AxisMap> maps = axis_maps(samples);
  const auto visit = [&](const auto& self, size_t axis, int64_t at, int64_t from) -> void {
    if (axis == maps.size()) return move(at, from, int64_t{1});
    const AxisMap& one = maps[axis];
    for (const Stretch& s : one.stretches)
      for (int64_t i = 0; i < s.clipped(one.extent); ++i)
        self(self, axis + 1, at + (s.local + i) * one.local_stride,
             from + (s.piece + i) * one.piece_stride);
  };
  visit(visit, 0, 0, 0);
}

void Selection::pack(const std::byte* local, std::byte* dense, int64_t samples) const {
  with_size(dtype(), [&](auto size) {
    constexpr auto kSize = static_cast<int64_t>(size());
    for_each_run(samples, [&](int64_t at, int64_t from, int64_t count) {
      copy<kSize>(local + at * kSize, dense + from * kSize, count);
    });
  });
}

void Selection::unpack(const std::byte* dense, std::byte* local, int64_t samples) const {
  with_size(dtype(), [&](auto size) {
    constexpr auto kSize = static_cast<int64_t>(size());
    for_each_run(samples, [&](int64_t at, int64_t from, int64_t count) {
      copy<kSize>(dense + from * kSize, local + at * kSize, count);
    });
  });
}

void Selection::unpack_add(const std::byte* dense, std::byte* local, int64_t samples) const {
  if (dtype() == DType::kFloat64)
    return for_each_run(samples, [&](int64_t at, int64_t from, int64_t count) {
      const auto* summands = reinterpret_cast<const double*>(dense) + from;
      auto* sums = reinterpret_cast<double*>(local) + at;
      for (int64_t i = 0; i < count; ++i) sums[i] += summands[i];
    });
  KERF_CHECK(dtype() == DType::kFloat32, "sums of {}", to_string(dtype()));
  const auto* from_data = reinterpret_cast<const float*>(dense);
  auto* to_data = reinterpret_cast<float*>(local);
  for_each_run(samples, [&](int64_t at, int64_t from, int64_t count) {
    add(from_data + from, count, to_data + at);
  });
}

void Selection::pack_add(const std::byte* local, std::byte* dense, int64_t samples) const {
  KERF_CHECK(dtype() == DType::kFloat32, "sums of {}", to_string(dtype()));
  const auto* from_data = reinterpret_cast<const float*>(local);
  auto* to_data = reinterpret_cast<float*>(dense);
  for_each_run(samples, [&](int64_t at, int64_t from, int64_t count) {
    add(from_data + at, count, to_data + from);
  });
}

}  // namespace kerf::ops
