// Indices that come from data, on the host.
#pragma once

#include <string_view>
#include <vector>

#include "ops/kernel.h"
#include "ops/local_index.h"

namespace kerf::ops::cpu {

// Element `i` of indices of int64 or int32.
inline int64_t index_at(const TensorView& indices, int64_t i) {
  return indices.dtype == DType::kInt32 ? indices.as<int32_t>()[i] : indices.i64()[i];
}

// Counted from the end where it is negative.
inline int64_t wrapped(int64_t index, int64_t extent) { return index < 0 ? index + extent : index; }

// The same, of an index that must be one of `extent`. Throws Error{kUsage} with its place among the
// indices that this call was given.
inline int64_t checked_index(std::string_view op, const TensorView& indices, int64_t i,
                             int64_t extent) {
  const int64_t index = index_at(indices, i);
  if (index >= -extent && index < extent) return wrapped(index, extent);
  std::vector<int64_t> place(static_cast<size_t>(indices.shape.rank()));
  for (int axis = indices.shape.rank(); axis-- > 0; i /= indices.shape[axis])
    place[static_cast<size_t>(axis)] = i % indices.shape[axis];
  throw Error(
      ErrorCode::kUsage,
      format("{}: the index at [{}] of those that its part looks at is {}, but there are {} "
             "to pick from",
             op, fmt::join(place, ", "), index, extent));
}

// The part of an iteration axis that a site computes.
inline LocalIndex local_axis(const KernelSite& site, int axis) {
  const auto i = static_cast<size_t>(axis);
  return {site.iterations.axes[i], concrete_extent(site.op.space().axes[i].extent, site.largest)};
}

}  // namespace kerf::ops::cpu
