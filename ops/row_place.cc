#include "ops/row_place.h"

namespace kerf::ops {

std::string row_place(const Box& iterations, const Shape& local, const Shape& whole,
                      int64_t first_sample, int64_t row) {
  std::vector<int64_t> place(static_cast<size_t>(local.rank()));
  for (int axis = local.rank() - 1; axis >= 0; --axis) {
    int64_t left = row % local[axis];
    row /= local[axis];
    const IndexSet& set = iterations.axes[axis == 0 ? 0 : static_cast<size_t>(axis) + 1];
    for (const Range& range : set.ranges(whole[axis])) {
      place[static_cast<size_t>(axis)] = range.begin + left;
      if (left < range.size()) break;
      left -= range.size();
    }
  }
  const std::string position =
      local.rank() > 1
          ? format(" at position [{}]", fmt::join(place.begin() + 1, place.end(), ", "))
          : "";
  return format("{}{}", first_sample + place[0], position);
}

}  // namespace kerf::ops
