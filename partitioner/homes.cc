#include "partitioner/homes.h"

#include <algorithm>
#include <map>
#include <set>

namespace kerf::partitioner {
namespace {

using ops::Box;
using ops::IndexSet;
using ops::Layout;
using ops::Range;
using ops::Shape;

// The indices of one axis by which of the needs have them.
std::vector<IndexSet> classes_of(const std::vector<Reader>& readers, size_t axis, int64_t extent) {
  std::set<int64_t> ends{0, extent};
  for (const Reader& reader : readers)
    for (const Range& range : reader.need.axes[axis].ranges(extent)) {
      ends.insert(range.begin);
      ends.insert(range.end);
    }
  std::map<std::vector<bool>, std::vector<Range>> by_needs;
  for (auto begin = ends.begin(), end = std::next(begin); end != ends.end(); ++begin, ++end) {
    std::vector<bool> who;
    for (const Reader& reader : readers) who.push_back(reader.need.axes[axis].contains(*begin));
    by_needs[who].push_back({*begin, *end});
  }
  std::vector<IndexSet> classes;
  for (auto& [who, ranges] : by_needs)
    if (std::find(who.begin(), who.end(), true) != who.end())
      classes.push_back(IndexSet(std::move(ranges)).normalized(extent));
  return classes;
}

// Boxes such that each need is a union of some: products of the classes of the axes.
std::vector<Box> atoms_of(const std::vector<Reader>& readers, const Shape& shape) {
  std::vector<Box> atoms{{}};
  for (int axis = 0; axis < shape.rank(); ++axis) {
    std::vector<Box> longer;
    for (const Box& atom : atoms)
      for (const IndexSet& set : classes_of(readers, static_cast<size_t>(axis), shape[axis])) {
        longer.push_back(atom);
        longer.back().axes.push_back(set);
      }
    atoms = std::move(longer);
  }
  return atoms;
}

bool makes_all(const Reader& reader, const std::vector<Box>& summands, const Box& box) {
  std::vector<bool> makes(summands.size());
  for (const int i : reader.summands) makes[static_cast<size_t>(i)] = true;
  for (size_t i = 0; i < summands.size(); ++i)
    if (!makes[i] && !ops::intersect(summands[i], box).empty()) return false;
  return true;
}

// Adds a box to a part's home; false if the two make no box.
bool add_home(Layout& layout, int part, const Box& box, const Shape& shape) {
  if (box.empty()) return true;
  for (ops::Share& share : layout.shares) {
    if (share.part != part) continue;
    const Box both = ops::normalized(ops::hull(share.box, box), shape);
    const auto count = [&](const Box& each) { return ops::local_shape(each, shape).elements(); };
    if (count(both) != count(share.box) + count(box)) return false;
    share.box = both;
    return true;
  }
  layout.shares.push_back({part, ops::normalized(box, shape)});
  return true;
}

}  // namespace

int longest_axis(const Box& box, const Shape& shape, int except) {
  int longest = -1;
  const auto size = [&](int axis) { return box.axes[static_cast<size_t>(axis)].size(shape[axis]); };
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (axis != except && (longest < 0 || size(axis) > size(longest))) longest = axis;
  return longest;
}

std::vector<Box> divide_evenly(const Box& box, const Shape& shape, int axis, int parts) {
  const auto along = static_cast<size_t>(axis);
  const std::vector<Range> ranges = box.axes[along].ranges(shape[axis]);
  const int64_t count = box.axes[along].size(shape[axis]);
  std::vector<Box> boxes;
  auto range = ranges.begin();
  int64_t taken = 0;  // of *range
  for (const IndexSet& places : ops::split_evenly(count, parts)) {
    std::vector<Range> chosen;
    for (int64_t left = places.size(count); left > 0;) {
      const int64_t size = std::min(left, range->size() - taken);
      chosen.push_back({range->begin + taken, range->begin + taken + size});
      left -= size;
      taken += size;
      if (taken < range->size()) continue;
      ++range;
      taken = 0;
    }
    Box part = box;
    part.axes[along] = IndexSet(std::move(chosen)).normalized(shape[axis]);
    boxes.push_back(std::move(part));
  }
  return boxes;
}

Layout find_homes(const std::vector<Reader>& readers, const std::vector<Box>& summands,
                  const Shape& shape) {
  Layout homes;
  if (summands.empty() || readers.size() == 1) {
    for (const Reader& reader : readers) homes.shares.push_back({reader.part, reader.need});
    return homes;
  }
  if (shape.rank() == 0) {
    homes.shares.push_back({readers.front().part, readers.front().need});
    return homes;
  }
  for (const Box& atom : atoms_of(readers, shape)) {
    std::vector<const Reader*> needers;
    for (const Reader& reader : readers)
      if (reader.need.contains(atom)) needers.push_back(&reader);
    if (needers.empty()) continue;
    const bool replicas = std::all_of(needers.begin(), needers.end(), [&](const Reader* reader) {
      return makes_all(*reader, summands, atom);
    });
    std::vector<Box> boxes(needers.size(), atom);
    if (!replicas)
      boxes =
          divide_evenly(atom, shape, longest_axis(atom, shape), static_cast<int>(needers.size()));
    for (size_t i = 0; i < needers.size(); ++i)
      if (!add_home(homes, needers[i]->part, boxes[i], shape))
        return Layout::whole(readers.front().part, shape.rank());  // one home that all read from
  }
  std::sort(homes.shares.begin(), homes.shares.end(),
            [](const ops::Share& a, const ops::Share& b) { return a.part < b.part; });
  return ops::check_layout(homes, shape).empty()
             ? homes
             : Layout::whole(readers.front().part, shape.rank());
}

}  // namespace kerf::partitioner
