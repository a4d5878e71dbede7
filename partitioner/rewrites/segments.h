// Segments of an axis: the pieces of it that no division cuts through. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/layout.h"

namespace kerf::partitioner {

// Where they begin, and where the last ends: wherever a share of axis `axis` of the iterations
// begins or ends.
std::vector<int64_t> segment_boundaries(const ops::Layout& division, size_t axis, int64_t extent);
// The numbers of the segments that make up these indices.
ops::IndexSet segments_in(const ops::IndexSet& indices, const std::vector<int64_t>& boundaries);
// The division with segments for the indices of the axis.
ops::Layout by_segments(ops::Layout division, size_t axis, const std::vector<int64_t>& boundaries);

}  // namespace kerf::partitioner
