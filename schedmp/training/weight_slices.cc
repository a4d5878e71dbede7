#include "schedmp/training/weight_slices.h"

#include <algorithm>

namespace kerf::schedmp {

std::vector<ops::Box> slices_of(const ops::ValueSpec& spec, size_t most_bytes) {
  const int rank = spec.shape.rank();
  if (spec.shape.elements() == 0) return {};
  if (rank == 0) return {ops::Box::whole(0)};
  const int64_t rows = spec.shape[0];
  const auto row_bytes = static_cast<int64_t>(spec.bytes(0)) / rows;
  const int64_t step = std::max<int64_t>(1, static_cast<int64_t>(most_bytes) / row_bytes);
  std::vector<ops::Box> slices;
  for (int64_t begin = 0; begin < rows; begin += step) {
    ops::Box& slice = slices.emplace_back(ops::Box::whole(rank));
    slice.axes[0] = ops::IndexSet::range(begin, std::min(begin + step, rows)).normalized(rows);
  }
  return slices;
}

ops::Box slice_of_rows(const ops::Shape& shape, const RowRange& rows, int axis) {
  ops::Box slice = ops::Box::whole(shape.rank());
  if (shape.rank() == 0) return slice;
  slice.axes[static_cast<size_t>(axis)] =
      ops::IndexSet::range(rows.first, rows.first + rows.count).normalized(shape[axis]);
  return slice;
}

RowRange rows_of(const ops::Box& piece, const ops::Box& share, const ops::Shape& shape, int axis) {
  if (piece.axes.empty()) return {0, 1};
  const ops::IndexSet& indices = piece.axes[static_cast<size_t>(axis)];
  const int64_t begin = indices.ranges(shape[axis]).front().begin;
  return {ops::clipped_size(share.axes[static_cast<size_t>(axis)], begin),
          indices.size(shape[axis])};
}

ops::IndexSet indices_of(const ops::IndexSet& set, int64_t extent, ops::Range numbers) {
  std::vector<ops::Range> found;
  int64_t before = 0;
  for (const ops::Range& range : set.ranges(extent)) {
    const ops::Range some{range.begin + std::max<int64_t>(numbers.begin - before, 0),
                          range.begin + std::min(numbers.end - before, range.size())};
    if (some.begin < some.end) found.push_back(some);
    before += range.size();
  }
  return ops::IndexSet(std::move(found)).normalized(extent);
}

}  // namespace kerf::schedmp
