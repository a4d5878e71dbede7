#include "ops/iteration.h"

#include <algorithm>

namespace kerf::ops {
namespace {

int64_t extent_of(const IterationSpace& space, int axis, int64_t samples) {
  return concrete_extent(space.axes[static_cast<size_t>(axis)].extent, samples);
}

const IndexSet& set_of(const Box& iterations, int axis) {
  return iterations.axes[static_cast<size_t>(axis)];
}

Box nothing(int rank) {
  return {std::vector<IndexSet>(static_cast<size_t>(rank), IndexSet::none())};
}

// What a stretch of an iteration axis, as long as the operand and beginning at `offset`, sees of a
// set of that axis.
IndexSet within_stretch(const IndexSet& set, int64_t offset, int64_t extent) {
  if (set.is_all()) return set;
  std::vector<Range> ranges;
  const IndexSet within = intersect(set, IndexSet::range(offset, offset + extent));
  for (const Range& range : within.ranges())
    ranges.push_back({range.begin - offset, range.end - offset});
  return IndexSet(std::move(ranges));
}

// What the segments with these numbers hold.
IndexSet within_segments(const IndexSet& numbers, const std::vector<int64_t>& segments) {
  if (numbers.is_all()) return IndexSet::range(segments.front(), segments.back());
  std::vector<Range> ranges;
  for (const Range& range : numbers.ranges())
    ranges.push_back({segments.at(static_cast<size_t>(range.begin)),
                      segments.at(static_cast<size_t>(range.end))});
  return IndexSet(std::move(ranges));
}

// The numbers of the segments that make up the set; nothing where it ends within one.
std::optional<IndexSet> segments_of(const IndexSet& set, const std::vector<int64_t>& segments) {
  std::vector<Range> ranges;
  for (const Range& range : set.ranges()) {
    const auto begin = std::lower_bound(segments.begin(), segments.end(), range.begin);
    const auto end = std::lower_bound(segments.begin(), segments.end(), range.end);
    if (end == segments.end() || *begin != range.begin || *end != range.end) return std::nullopt;
    ranges.push_back({begin - segments.begin(), end - segments.begin()});
  }
  return IndexSet(std::move(ranges));
}

// Of a flattened axis: beyond any use. A set's memory is its ranges', and here a few words of a
// plan can make one for each row of a batch.
constexpr int64_t kMostRanges = int64_t{1} << 20;

void check_ranges(int64_t outer, const IndexSet& inner) {
  const auto ranges = static_cast<int64_t>(inner.ranges().size());
  if (outer <= kMostRanges / std::max<int64_t>(ranges, 1)) return;
  throw Error(ErrorCode::kUsage,
              format("{} of each of {} indices is more than {} stretches of the axis that they are "
                     "flattened to; divide another axis, or use smaller micro-batches",
                     to_string(inner), outer, kMostRanges));
}

// The indices of several axes flattened into one, the last the fastest.
IndexSet flattened(const IterationSpace& space, const std::vector<int>& axes, const Box& iterations,
                   int64_t samples) {
  IndexSet inner = IndexSet::all();
  int64_t inner_extent = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const IndexSet& set = set_of(iterations, *axis);
    const int64_t extent = extent_of(space, *axis, samples);
    if (!(set.is_all() && inner.is_all())) {
      if (!inner.is_all()) check_ranges(set.size(extent), inner);
      std::vector<Range> ranges;
      for (const Range& outer : set.ranges(extent)) {
        if (inner.is_all()) {
          ranges.push_back({outer.begin * inner_extent, outer.end * inner_extent});
          continue;
        }
        for (int64_t i = outer.begin; i < outer.end; ++i)
          for (const Range& range : inner.ranges())
            ranges.push_back({i * inner_extent + range.begin, i * inner_extent + range.end});
      }
      inner = IndexSet(std::move(ranges));
    }
    inner_extent *= extent;
  }
  return inner;
}

// A set of an axis in blocks of `inner` indices: the blocks that hold anything of it, and what each
// holds. Nothing where they hold different things.
struct Blocks {
  std::vector<Range> touched;
  IndexSet held = IndexSet::none();  // of every touched block
};

// As much memory as the set has ranges, however many blocks they span: the end of a block where a
// range begins, whole blocks, the begin of a block where it ends.
std::optional<Blocks> in_blocks(const IndexSet& set, int64_t blocks, int64_t inner) {
  std::vector<std::vector<Range>> held;  // of the blocks of each touched range, from their begin
  Blocks result;
  const auto hold = [&](const Range& numbers, const Range& of_each) {
    if (result.touched.empty() || result.touched.back() != numbers) {
      result.touched.push_back(numbers);
      held.emplace_back();
    }
    held.back().push_back(of_each);
  };
  for (const Range& range : set.ranges(blocks * inner))
    for (int64_t begin = range.begin; begin < range.end;) {
      const int64_t number = begin / inner;
      const int64_t from = begin - number * inner;
      const int64_t whole = from == 0 ? (range.end - begin) / inner : 0;
      const int64_t end =
          whole > 0 ? begin + whole * inner : std::min(range.end, (number + 1) * inner);
      hold({number, number + std::max<int64_t>(whole, 1)},
           whole > 0 ? Range{0, inner} : Range{from, end - number * inner});
      begin = end;
    }
  if (held.empty()) return result;
  if (std::any_of(held.begin(), held.end(), [&](const auto& one) { return one != held[0]; }))
    return std::nullopt;
  result.held = IndexSet(held[0]).normalized(inner);
  return result;
}

// Sets the axes whose flattened product is `set`; false if there are none.
bool unflatten(const IterationSpace& space, const std::vector<int>& axes, IndexSet set,
               int64_t samples, Box& iterations) {
  int64_t inner = 1;
  for (const int axis : axes) inner *= extent_of(space, axis, samples);
  for (const int axis : axes) {
    if (set.is_all()) return true;
    const int64_t extent = extent_of(space, axis, samples);
    inner /= std::max<int64_t>(extent, 1);
    auto blocks = in_blocks(set, extent, inner);
    if (!blocks) return false;
    iterations.axes[static_cast<size_t>(axis)] =
        IndexSet(std::move(blocks->touched)).normalized(extent);
    set = std::move(blocks->held);
  }
  return true;
}

}  // namespace

Shape IterationSpace::extents() const {
  std::vector<int64_t> result;
  for (const IterationAxis& axis : axes) result.push_back(axis.extent);
  return Shape(result);
}

int IterationSpace::find(const std::string& name) const {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].name == name) return static_cast<int>(i);
  return -1;
}

std::vector<IterationAxis> axes_of_tensor(const Shape& shape) {
  const int rank = shape.rank();
  const int features = rank == 3 ? 2 : 1;
  std::vector<IterationAxis> axes;
  for (int i = 0; i < rank; ++i) {
    IterationAxis axis{.extent = shape[i]};
    axis.kind = shape[i] < 0    ? AxisKind::kSample
                : i == features ? AxisKind::kFeature
                                : AxisKind::kSpace;
    axis.name = shape[i] < 0 ? "samples" : i == features ? "features" : format("axis {}", i);
    axes.push_back(std::move(axis));
  }
  return axes;
}

OperandMap operand_axes(const std::vector<std::vector<int>>& axes, int first_of) {
  OperandMap map;
  map.first_of = first_of;
  for (const std::vector<int>& each : axes) map.axes.push_back({.axes = each});
  return map;
}

OperandMap same_axes(int rank) {
  OperandMap map;
  for (int i = 0; i < rank; ++i) map.axes.push_back({.axes = {i}});
  return map;
}

OperandMap broadcast_axes(const Shape& operand, const Shape& shape) {
  OperandMap map;
  const int shift = shape.rank() - operand.rank();
  for (int i = 0; i < operand.rank(); ++i) {
    const bool repeated = operand[i] == 1 && shape[i + shift] != 1;
    map.axes.push_back({.axes = repeated ? std::vector<int>{} : std::vector<int>{i + shift}});
  }
  return map;
}

IndexSet under_windows(const SlidingWindow& window, const IndexSet& outputs, int64_t extent) {
  if (outputs.is_all()) return IndexSet::all();
  const int64_t first = outputs.ranges().front().begin;
  const int64_t last = outputs.ranges().back().end - 1;
  const int64_t begin = first * window.stride - window.pad;
  const int64_t end = last * window.stride - window.pad + (window.kernel - 1) * window.dilation + 1;
  const int64_t low = std::clamp<int64_t>(begin, 0, extent - 1);
  return IndexSet::range(low, std::clamp<int64_t>(end, low + 1, extent));
}

bool has_axis(const OperandMap& map, int axis) {
  return std::any_of(map.axes.begin(), map.axes.end(), [&](const OperandAxis& one) {
    return std::find(one.axes.begin(), one.axes.end(), axis) != one.axes.end();
  });
}

Box operand_box(const IterationSpace& space, const OperandMap& map, const Shape& operand,
                const Box& iterations, int64_t samples) {
  KERF_CHECK(iterations.axes.size() == space.axes.size() &&
                 static_cast<int>(map.axes.size()) == operand.rank(),
             "iterations {} of {} axes, an operand of shape {}", to_string(iterations),
             space.axes.size(), to_string(operand));
  const bool unused = map.first_of >= 0 && !set_of(iterations, map.first_of).contains(0);
  if (iterations.empty() || unused) return nothing(operand.rank());
  const Shape shape = operand.with_batch(samples);
  Box box;
  for (int i = 0; i < operand.rank(); ++i) {
    const OperandAxis& axis = map.axes[static_cast<size_t>(i)];
    if (axis.axes.empty())
      box.axes.push_back(IndexSet::all());
    else if (axis.window)
      box.axes.push_back(under_windows(*axis.window, set_of(iterations, axis.axes[0]), shape[i]));
    else if (!axis.segments.empty())
      box.axes.push_back(within_segments(set_of(iterations, axis.axes[0]), axis.segments));
    else if (axis.axes.size() == 1)
      box.axes.push_back(within_stretch(set_of(iterations, axis.axes[0]), axis.offset, shape[i]));
    else
      box.axes.push_back(flattened(space, axis.axes, iterations, samples));
  }
  box = normalized(box, shape);
  return box.empty() ? nothing(operand.rank()) : box;
}

std::vector<IndexSet> partial_slices(const IterationSpace& space, const OperandMap& map,
                                     const Box& iterations) {
  std::vector<IndexSet> slices;
  bool partial = false;
  for (int axis = 0; axis < static_cast<int>(space.axes.size()); ++axis) {
    if (has_axis(map, axis) || axis == map.first_of) continue;
    slices.push_back(set_of(iterations, axis));
    partial = partial || !slices.back().is_all();
  }
  return partial ? slices : std::vector<IndexSet>{};
}

std::optional<Box> iterations_of(const IterationSpace& space, const OperandMap& map,
                                 const Shape& operand, const Box& box, int64_t samples) {
  const Shape shape = operand.with_batch(samples);
  const Box wanted = normalized(box, shape);
  Box iterations = Box::whole(static_cast<int>(space.axes.size()));
  if (wanted.empty()) return Box{std::vector<IndexSet>(space.axes.size(), IndexSet::none())};
  for (int i = 0; i < shape.rank(); ++i) {
    const OperandAxis& axis = map.axes[static_cast<size_t>(i)];
    const IndexSet& set = wanted.axes[static_cast<size_t>(i)];
    const bool whole =
        axis.segments.empty() || (axis.segments.front() == 0 && axis.segments.back() == shape[i]);
    if (set.is_all() && whole) continue;
    if (axis.axes.empty() || axis.window || set.is_all()) return std::nullopt;
    if (!axis.segments.empty()) {
      const auto numbers = segments_of(set, axis.segments);
      if (!numbers) return std::nullopt;
      iterations.axes[static_cast<size_t>(axis.axes[0])] = *numbers;
      continue;
    }
    const bool stretch =
        axis.axes.size() == 1 && extent_of(space, axis.axes[0], samples) != shape[i];
    if (stretch || !unflatten(space, axis.axes, set, samples, iterations)) return std::nullopt;
  }
  return iterations;
}

std::string check_iterations(const IterationSpace& space, const Box& iterations, int64_t samples) {
  KERF_CHECK(iterations.axes.size() == space.axes.size(), "iterations {} of {} axes",
             to_string(iterations), space.axes.size());
  for (size_t i = 0; i < space.axes.size(); ++i) {
    const IterationAxis& axis = space.axes[i];
    const IndexSet set =
        iterations.axes[i].normalized(extent_of(space, static_cast<int>(i), samples));
    if (set.is_all() || set.empty()) continue;
    if (!axis.undivided.empty()) return format("it divides its {}: {}", axis.name, axis.undivided);
    if (axis.contiguous && set.ranges().size() > 1)
      return format("{} of its {} has gaps; one call computes a range", to_string(set), axis.name);
    for (const Range& range : set.ranges())
      if (range.begin % axis.unit != 0 || range.end % axis.unit != 0)
        return format("{} of its {} divides a group of {}, which stays together", to_string(set),
                      axis.name, axis.unit);
  }
  return {};
}

}  // namespace kerf::ops
