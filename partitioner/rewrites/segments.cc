#include "partitioner/rewrites/segments.h"

#include <set>

namespace kerf::partitioner {

using ops::IndexSet;
using ops::Layout;

std::vector<int64_t> segment_boundaries(const Layout& division, size_t axis, int64_t extent) {
  std::set<int64_t> boundaries{0, extent};
  for (const ops::Share& share : division.shares)
    for (const ops::Range& range : share.box.axes[axis].ranges(extent)) {
      boundaries.insert(range.begin);
      boundaries.insert(range.end);
    }
  return {boundaries.begin(), boundaries.end()};
}

IndexSet segments_in(const IndexSet& indices, const std::vector<int64_t>& boundaries) {
  if (indices.is_all()) return indices;
  std::vector<int64_t> segments;
  for (size_t i = 0; i + 1 < boundaries.size(); ++i)
    if (indices.contains(boundaries[i])) segments.push_back(static_cast<int64_t>(i));
  return IndexSet::of(segments).normalized(std::ssize(boundaries) - 1);
}

Layout by_segments(Layout division, size_t axis, const std::vector<int64_t>& boundaries) {
  for (ops::Share& share : division.shares)
    share.box.axes[axis] = segments_in(share.box.axes[axis], boundaries);
  return division;
}

}  // namespace kerf::partitioner
