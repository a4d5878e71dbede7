#include "ops/layout.h"

#include <algorithm>

namespace kerf::ops {
namespace {

template <class Combine>
Box axis_wise(const Box& a, const Box& b, Combine combine) {
  KERF_CHECK(a.axes.size() == b.axes.size(), "boxes {} and {}", to_string(a), to_string(b));
  Box result;
  result.axes.reserve(a.axes.size());
  for (size_t axis = 0; axis < a.axes.size(); ++axis)
    result.axes.push_back(combine(a.axes[axis], b.axes[axis]));
  return result;
}

// ---- check_layout, one rule each: what is wrong, or nothing.

std::string check_box(const Share& share, const Shape& shape) {
  if (static_cast<int>(share.box.axes.size()) != shape.rank())
    return format("part {} has a box of {} axes for a tensor of shape {}", share.part,
                  share.box.axes.size(), to_string(shape));
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const IndexSet& set = share.box.axes[static_cast<size_t>(axis)];
    if (set.is_all()) continue;
    if (set.empty()) return format("part {} holds nothing of axis {}", share.part, axis);
    if (shape[axis] < 0)
      return format("part {} holds {} of axis {}, the batch, whose extent is not known here",
                    share.part, to_string(set), axis);
    if (set.ranges().back().end > shape[axis])
      return format("part {} holds {} of axis {}, whose indices end at {}", share.part,
                    to_string(set), axis, shape[axis] - 1);
  }
  return {};
}

// Whether the boxes lie one behind the other on some axis, as those of even divisions do: seen at a
// glance, where layouts have thousands of shares.
bool lie_apart(const Box& a, const Box& b) {
  for (size_t axis = 0; axis < a.axes.size(); ++axis) {
    const IndexSet& one = a.axes[axis];
    const IndexSet& other = b.axes[axis];
    if (one.is_all() || other.is_all() || one.empty() || other.empty()) continue;
    if (one.ranges().back().end <= other.ranges().front().begin ||
        other.ranges().back().end <= one.ranges().front().begin)
      return true;
  }
  return false;
}

std::string check_pair(const Share& a, const Share& b) {
  if (a.part == b.part) return format("part {} has two shares", a.part);
  if (lie_apart(a.box, b.box)) return {};
  if (a.box == b.box)
    return a.partial() == b.partial()
               ? std::string()
               : format("parts {} and {} hold {}, one a partial sum and the other not", a.part,
                        b.part, to_string(a.box));
  const Box common = intersect(a.box, b.box);
  if (common.empty()) return {};
  return format("parts {} and {} overlap in {}; boxes are equal or have nothing in common", a.part,
                b.part, to_string(common));
}

int64_t elements(const Box& box, const Shape& shape) {
  return local_shape(box, shape).elements_per_sample();
}

// Names an axis where some indices are in no box; where each axis for itself is covered, says how
// much is missing.
std::string describe_hole(const Layout& layout, const Shape& shape, int64_t missing) {
  for (int axis = 0; axis < shape.rank(); ++axis) {
    IndexSet held = IndexSet::none();
    for (const Share& share : layout.shares)
      held = unite(held, share.box.axes[static_cast<size_t>(axis)]);
    if (held.is_all() || shape[axis] < 0) continue;
    const IndexSet hole = subtract(IndexSet::all(), held, shape[axis]);
    if (!hole.empty()) return format("no part holds {} of axis {}", to_string(hole), axis);
  }
  return format("no part holds {} of the {} elements", missing, shape.elements_per_sample());
}

// Boxes are known to be disjoint or identical, so counting decides whether they cover the tensor.
std::string check_cover(const Layout& layout, const Shape& shape) {
  int64_t missing = shape.elements_per_sample();
  for (auto share = layout.shares.begin(); share != layout.shares.end(); ++share) {
    const bool repeated = std::any_of(layout.shares.begin(), share, [&](const Share& earlier) {
      return earlier.box == share->box;
    });
    if (!repeated) missing -= elements(share->box, shape);
  }
  return missing == 0 ? std::string() : describe_hole(layout, shape, missing);
}

// ---- describe

std::string list_parts(const Layout& layout, const Box* box = nullptr) {
  std::string text;
  for (const Share& share : layout.shares) {
    if (box != nullptr && share.box != *box) continue;
    if (!text.empty()) text += ',';
    text += std::to_string(share.part);
  }
  return text;
}

// The one axis that the boxes divide, each in its own way; -1 if they are otherwise.
int divided_axis(const Layout& layout) {
  int divided = -1;
  for (const Share& share : layout.shares) {
    if (share.partial() || share.box.is_whole()) return -1;
    for (int axis = 0; axis < static_cast<int>(share.box.axes.size()); ++axis) {
      if (share.box.axes[static_cast<size_t>(axis)].is_all()) continue;
      if (divided >= 0 && divided != axis) return -1;
      divided = axis;
    }
    if (std::count_if(layout.shares.begin(), layout.shares.end(),
                      [&](const Share& other) { return other.box == share.box; }) > 1)
      return -1;
  }
  return divided;
}

std::string spell_out(const Layout& layout) {
  std::string text;
  for (auto share = layout.shares.begin(); share != layout.shares.end(); ++share) {
    if (std::any_of(layout.shares.begin(), share,
                    [&](const Share& earlier) { return earlier.box == share->box; }))
      continue;
    if (!text.empty()) text += "; ";
    text += format("{}{} on {}", share->partial() ? "partial sums of " : "", to_string(share->box),
                   list_parts(layout, &share->box));
  }
  return text;
}

}  // namespace

bool Box::is_whole() const {
  return std::all_of(axes.begin(), axes.end(), [](const IndexSet& set) { return set.is_all(); });
}

bool Box::empty() const {
  return std::any_of(axes.begin(), axes.end(), [](const IndexSet& set) { return set.empty(); });
}

bool Box::contains(const Box& other) const {
  KERF_CHECK(axes.size() == other.axes.size(), "boxes {} and {}", to_string(*this),
             to_string(other));
  return other.empty() ||
         std::equal(axes.begin(), axes.end(), other.axes.begin(),
                    [](const IndexSet& a, const IndexSet& b) { return a.contains(b); });
}

Box intersect(const Box& a, const Box& b) {
  return axis_wise(a, b, [](const IndexSet& x, const IndexSet& y) { return intersect(x, y); });
}

Box hull(const Box& a, const Box& b) {
  const Box both =
      axis_wise(a, b, [](const IndexSet& x, const IndexSet& y) { return unite(x, y); });
  if (a.empty()) return b;
  return b.empty() ? a : both;
}

Box normalized(const Box& box, const Shape& shape) {
  KERF_CHECK(static_cast<int>(box.axes.size()) == shape.rank(), "box {} of a tensor of shape {}",
             to_string(box), to_string(shape));
  Box result = box;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    IndexSet& set = result.axes[static_cast<size_t>(axis)];
    set = set.normalized(shape[axis]);
  }
  return result;
}

Shape local_shape(const Box& box, const Shape& shape) {
  KERF_CHECK(static_cast<int>(box.axes.size()) == shape.rank(), "box {} of a tensor of shape {}",
             to_string(box), to_string(shape));
  Shape local = shape;
  for (int axis = 0; axis < shape.rank(); ++axis)
    local[axis] = box.axes[static_cast<size_t>(axis)].size(shape[axis]);
  return local;
}

Shape local_shape(const Box& box, const Shape& shape, int64_t samples) {
  Shape local = shape.with_batch(samples);
  KERF_CHECK(static_cast<int>(box.axes.size()) == shape.rank(), "box {} of a tensor of shape {}",
             to_string(box), to_string(shape));
  for (int axis = 0; axis < shape.rank(); ++axis)
    local[axis] = clipped_size(box.axes[static_cast<size_t>(axis)], local[axis]);
  return local;
}

std::string to_string(const Box& box) {
  std::string text = "[";
  for (size_t axis = 0; axis < box.axes.size(); ++axis) {
    if (axis > 0) text += ", ";
    text += to_string(box.axes[axis]);
  }
  return text + "]";
}

Layout Layout::replicated(const std::vector<int>& parts, int rank) {
  Layout layout;
  for (const int part : parts) layout.shares.push_back({part, Box::whole(rank)});
  return layout;
}

Layout Layout::split(const std::vector<int>& parts, int rank, int axis,
                     const std::vector<IndexSet>& sets) {
  KERF_CHECK(parts.size() == sets.size(), "{} parts, {} index sets", parts.size(), sets.size());
  KERF_CHECK(axis >= 0 && axis < rank, "axis {} of a tensor of {} axes", axis, rank);
  Layout layout;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (sets[i].empty()) continue;
    Box box = Box::whole(rank);
    box.axes[static_cast<size_t>(axis)] = sets[i];
    layout.shares.push_back({parts[i], std::move(box)});
  }
  return layout;
}

const Share* Layout::find(int part) const {
  const auto share = std::find_if(shares.begin(), shares.end(), [part](const Share& candidate) {
    return candidate.part == part;
  });
  return share == shares.end() ? nullptr : &*share;
}

Layout normalized(const Layout& layout, const Shape& shape) {
  Layout result = layout;
  for (Share& share : result.shares) share.box = normalized(share.box, shape);
  return result;
}

std::string check_layout(const Layout& layout, const Shape& shape) {
  if (layout.shares.empty()) return "no part holds any of it";
  for (const Share& share : layout.shares) {
    if (share.part < 0) return format("part {} cannot be", share.part);
    if (std::string fault = check_box(share, shape); !fault.empty()) return fault;
  }
  const Layout clean = normalized(layout, shape);
  for (auto a = clean.shares.begin(); a != clean.shares.end(); ++a)
    for (auto b = clean.shares.begin(); b != a; ++b)
      if (std::string fault = check_pair(*b, *a); !fault.empty()) return fault;
  return check_cover(clean, shape);
}

std::string describe(const Layout& layout) {
  const auto& shares = layout.shares;
  if (shares.empty()) return "nowhere";
  const std::string parts = list_parts(layout);
  const bool whole =
      std::all_of(shares.begin(), shares.end(), [](const Share& s) { return s.box.is_whole(); });
  const auto partials =
      std::count_if(shares.begin(), shares.end(), [](const Share& s) { return s.partial(); });
  if (whole && partials == 0)
    return format("{} on {}", shares.size() == 1 ? "whole" : "replicated", parts);
  if (whole && partials == std::ssize(shares)) return format("partial sums on {}", parts);
  if (const int axis = divided_axis(layout); axis >= 0)
    return format("split on axis {} over {}", axis, parts);
  return spell_out(layout);
}

}  // namespace kerf::ops
