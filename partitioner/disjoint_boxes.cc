#include "partitioner/disjoint_boxes.h"

#include <algorithm>

namespace kerf::partitioner {

namespace {

bool follow_along(size_t axis, const std::vector<const ops::Box*>& boxes) {
  std::vector<ops::Range> spans;
  spans.reserve(boxes.size());
  for (const ops::Box* box : boxes) {
    const ops::IndexSet& set = box->axes[axis];
    if (set.is_all()) return false;
    if (const auto ranges = set.ranges(); !ranges.empty())
      spans.push_back({ranges.front().begin, ranges.back().end});
  }
  std::ranges::sort(spans, {}, &ops::Range::begin);
  return std::ranges::adjacent_find(spans, [](const ops::Range& a, const ops::Range& b) {
           return b.begin < a.end;
         }) == spans.end();
}

}  // namespace

bool follow_one_another(const std::vector<const ops::Box*>& boxes) {
  if (boxes.size() < 2) return true;
  for (size_t axis = 0; axis < boxes[0]->axes.size(); ++axis)
    if (follow_along(axis, boxes)) return true;
  return false;
}

}  // namespace kerf::partitioner
