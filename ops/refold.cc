#include "ops/refold.h"

#include <algorithm>
#include <span>

#include "runtime/error.h"

namespace kerf::ops {
namespace {

using Mask = std::vector<char>;  // one entry per element of a sample

// Marks the elements of axes [axis, rank) that the box holds, `base` being the flat index so far.
void mark(const Box& box, const Shape& shape, int axis, int64_t base, Mask& mask) {
  if (axis == shape.rank()) {
    mask[static_cast<size_t>(base)] = 1;
    return;
  }
  for (const Range& range : box.axes[static_cast<size_t>(axis)].ranges(shape[axis]))
    for (int64_t i = range.begin; i < range.end; ++i)
      mark(box, shape, axis + 1, base * shape[axis] + i, mask);
}

// Index sets of the axes [axis, rank) whose product is the mask; false if there are none. Every
// slice that holds anything must hold the same.
bool factor(std::span<const char> mask, const Shape& shape, int axis, std::vector<IndexSet>& sets) {
  if (axis == shape.rank()) return true;
  const auto extent = static_cast<size_t>(shape[axis]);
  const size_t slice = mask.size() / extent;
  std::vector<int64_t> touched;
  std::span<const char> pattern;
  for (size_t i = 0; i < extent; ++i) {
    const auto here = mask.subspan(i * slice, slice);
    if (std::find(here.begin(), here.end(), 1) == here.end()) continue;
    if (pattern.empty()) pattern = here;
    if (!std::equal(here.begin(), here.end(), pattern.begin())) return false;
    touched.push_back(static_cast<int64_t>(i));
  }
  sets.push_back(IndexSet::of(touched).normalized(shape[axis]));
  return factor(pattern, shape, axis + 1, sets);
}

bool whole_samples(const Box& box) {
  return std::all_of(box.axes.begin() + 1, box.axes.end(),
                     [](const IndexSet& set) { return set.is_all(); });
}

}  // namespace

std::optional<Box> refold(const Box& box, const Shape& from, const Shape& to) {
  KERF_CHECK(from.rank() > 0 && to.rank() > 0 && from[0] == to[0], "{} read as {}", to_string(from),
             to_string(to));
  const Box wanted = normalized(box, from);
  Box result{{wanted.axes[0]}};
  if (whole_samples(wanted)) {
    result.axes.resize(static_cast<size_t>(to.rank()));
    return result;
  }
  if (wanted.empty()) {
    result.axes.resize(static_cast<size_t>(to.rank()), IndexSet::none());
    return result;
  }
  int64_t features = 1;
  for (int i = 1; i < from.rank(); ++i) features *= from[i];
  Mask mask(static_cast<size_t>(features), 0);
  mark(wanted, from, 1, 0, mask);
  if (!factor(mask, to, 1, result.axes)) return std::nullopt;
  return result;
}

}  // namespace kerf::ops
