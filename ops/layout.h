// Layouts: where a tensor lives. Index sets, boxes, shares.
//
// An index set is any set of indices of one axis. A box is one index set per axis; the elements it
// holds are their product, stored dense and row-major in ascending index order. A layout is a list
// of shares {part, box, slices}: boxes of one tensor are disjoint or identical; identical boxes on
// several parts mean replicas, or partial sums where they name the slices that they sum. Whole,
// replicated, feature-split ... are names for common shapes of it. Index sets of a symbolic axis
// refer to the largest micro-batch of a plan; a smaller one clips them, and may leave them empty.
// Plain values; no threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/tensor.h"

namespace kerf::ops {

struct Range {  // [begin, end)
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// Ascending, disjoint, non-adjacent, non-empty ranges; or "all" of an axis whose extent may not be
// known yet (the batch). Equality is by spelling: "all" and "0-9" of an axis of 10 compare equal
// only once normalized(). Boxes within layouts are kept normalized against the tensor's shape.
// Most are one range, which is kept without memory of its own.
class IndexSet {
 public:
  IndexSet() = default;
  static IndexSet all() { return {}; }
  static IndexSet none();
  static IndexSet range(int64_t begin, int64_t end);
  // Any order; empty ranges dropped, repeats, overlaps and neighbours merged. Throws
  // Error{kInternal} on a negative index or a reversed range.
  explicit IndexSet(std::vector<Range> ranges);
  static IndexSet of(const std::vector<int64_t>& indices);

  bool is_all() const { return hull_.end < 0; }
  bool empty() const { return hull_.end == 0; }
  // Number of indices on an axis of `extent`; kBatch for all of a batch.
  int64_t size(int64_t extent) const;
  bool contains(int64_t index) const;
  // Ranges never contain "all", whose extent they do not know.
  bool contains(const IndexSet& other) const;
  std::span<const Range> ranges() const {  // empty where is_all()
    if (several_) return *several_;
    return {&hull_, hull_.end > 0 ? size_t{1} : size_t{0}};
  }
  std::vector<Range> ranges(int64_t extent) const;  // with "all" spelled out; not of a batch
  // "all" where the ranges are [0, extent); itself otherwise, even where it exceeds the extent.
  IndexSet normalized(int64_t extent) const;
  bool operator==(const IndexSet& other) const {
    return hull_ == other.hull_ && std::ranges::equal(ranges(), other.ranges());
  }

 private:
  bool is_one_range() const { return hull_.end > 0 && !several_; }

  // Plans are made of these, by the million.
  Range hull_{0, -1};  // from the first index to the last; to -1: all; to 0: none
  std::shared_ptr<const std::vector<Range>> several_;  // where they are more than one range
};

IndexSet intersect(const IndexSet& a, const IndexSet& b);
IndexSet unite(const IndexSet& a, const IndexSet& b);
// The indices below `extent`.
IndexSet clip(const IndexSet& set, int64_t extent);
int64_t clipped_size(const IndexSet& set, int64_t extent);  // their number
// Normalized. Throws Error{kInternal} for "all but some" of a batch.
IndexSet subtract(const IndexSet& a, const IndexSet& b, int64_t extent);
// `parts` contiguous sets whose sizes differ by at most one, larger first: 10 over 4 is 3+3+2+2.
// Normalized; the last ones are empty where there are more parts than indices.
std::vector<IndexSet> split_evenly(int64_t extent, int parts);
// "all", "none", "0-3,7,9-11" (inclusive, as people write it). parse takes any order and blanks; it
// throws Error{kUsage, ..., where} on anything else: reversed, repeated or enormous indices.
std::string to_string(const IndexSet& set);
IndexSet parse_index_set(const std::string& text, const std::string& where);

struct Box {
  std::vector<IndexSet> axes;

  static Box whole(int rank) { return {std::vector<IndexSet>(static_cast<size_t>(rank))}; }
  bool is_whole() const;
  bool empty() const;
  bool contains(const Box& other) const;
  bool operator==(const Box&) const = default;
};

// Of two boxes of equal rank; others throw Error{kInternal}.
Box intersect(const Box& a, const Box& b);
Box hull(const Box& a, const Box& b);  // the smallest box that holds both
Box normalized(const Box& box, const Shape& shape);
// Extents of the dense local tensor that holds `box` of a tensor of `shape`; all of a symbolic axis
// stays symbolic, which a part of it cannot.
Shape local_shape(const Box& box, const Shape& shape);
// The same for a micro-batch of `samples`, its index sets clipped.
Shape local_shape(const Box& box, const Shape& shape, int64_t samples);
std::string to_string(const Box& box);  // "[all, 0-127]"

struct Share {
  int part = 0;
  Box box;
  // Of the iteration axes that are summed over, in order: what a partial sum has summed. The
  // slices of identical boxes are disjoint and cover. Empty: no partial sum.
  std::vector<IndexSet> slices = {};
  bool partial() const { return !slices.empty(); }
  bool operator==(const Share&) const = default;
};

struct Layout {
  std::vector<Share> shares;

  static Layout whole(int part, int rank) { return {{{part, Box::whole(rank)}}}; }
  static Layout replicated(const std::vector<int>& parts, int rank);
  // Axis `axis` divided over `parts`, sets[i] to parts[i]; empty sets get no share.
  static Layout split(const std::vector<int>& parts, int rank, int axis,
                      const std::vector<IndexSet>& sets);
  const Share* find(int part) const;  // the share of `part` (it has one at most), null if none
  bool operator==(const Layout&) const = default;
};

Layout normalized(const Layout& layout, const Shape& shape);
// Why `layout` is no layout of a tensor of `shape` (holes, overlaps, bad indices, a part with two
// shares, a symbolic axis that is divided); empty if it is one. Boxes need not be normalized. With
// the shape of the largest micro-batch the batch may be divided like any axis.
std::string check_layout(const Layout& layout, const Shape& shape);
// "whole on 2", "replicated on 0,1", "partial sums on 0,1", "split on axis 1 over 0,1,2",
// "nowhere", or the shares spelled out: "[all, 0-3] on 0,1; [all, 4-9] on 2". Of normalized boxes.
std::string describe(const Layout& layout);

}  // namespace kerf::ops
