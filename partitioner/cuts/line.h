// A line: units in one topological order, and what its segments cost as stages.
//
//   order     conv1 relu1 pool1 conv2 | relu2 pool2 flatten fc1 | relu3 fc2 relu4 fc3 loss
//   [i, j)                            4                         8
//
//   price(i, j)    work of its units + time to receive each distinct value that enters
//                                    + time to send each distinct value that leaves
//                  and to return its gradient: once, or where the order of the units is not that in
//                  which gradients are summed, for each reader, which is at least what a plan does
//   bytes(i, j)    of the distinct values that enter
//   memory(i, j)   of what its units hold, each thing once
//
// No table is larger than the graph: sweeps answer for all segments from one start, or to one end,
// at once. Borrows the units; immutable.
#pragma once

#include <span>
#include <vector>

#include "partitioner/units.h"

namespace kerf::partitioner {

class Line {
 public:
  // As a segment's end passes a position, the segments that begin within [first, last] change so.
  struct Change {
    int first = 0;
    int last = 0;
    double price = 0;
    double bytes = 0;
  };

  Line(const Units& units, std::vector<int> order);

  int size() const { return static_cast<int>(order_.size()); }
  const std::vector<int>& order() const { return order_; }
  // Whether no segment's price falls as its end moves on: nothing is paid for what leaves, and
  // nothing flows backwards.
  bool prices_grow() const { return prices_grow_; }

  double work(int type, int i, int j) const {
    const std::vector<double>& before = before_[static_cast<size_t>(type)];
    return before[static_cast<size_t>(j)] - before[static_cast<size_t>(i)];
  }
  // By looking at the segment's own units.
  double price(int type, int i, int j) const;
  double bytes(int i, int j) const;
  double memory(int micro_batches, int i, int j) const;

  std::span<const Change> changes(int position) const {
    return slice(changes_, changes_from_, position);
  }
  // Boundaries that part two units which are better together.
  const std::vector<bool>& parts_close() const { return parts_close_; }

  // By start, the furthest end of a segment within the limit (the start itself if there is none).
  // O((n + E) log n), and only where prices_grow().
  std::vector<int> ends_by_price(int type, double limit) const;
  // The same of memory; O(n + E).
  std::vector<int> ends_by_memory(int micro_batches, double limit) const;

 private:
  // Position p reads a value (or has a part of what is held), and so do `previous` and `next`.
  struct Read {
    int item = 0;
    int previous = -1;
    int next = -1;
  };
  template <class T>
  std::span<const T> slice(const std::vector<T>& all, const std::vector<int>& from,
                           int position) const {
    const auto begin = static_cast<size_t>(from[static_cast<size_t>(position)]);
    const auto end = static_cast<size_t>(from[static_cast<size_t>(position) + 1]);
    return {all.data() + begin, end - begin};
  }
  std::vector<int> sorted_positions(const std::vector<int>& units) const;
  void find_values();
  void find_returns();
  void find_held();
  void find_changes();
  void find_close();

  const Units& units_;
  std::vector<int> order_;
  std::vector<int> position_;  // by unit
  std::vector<std::vector<double>> before_;
  bool prices_grow_ = true;
  std::vector<int> producer_;  // positions, by value
  std::vector<int> first_;
  std::vector<int> last_;
  std::vector<Read> reads_;  // by position
  std::vector<int> reads_from_;
  std::vector<int> made_;  // values, by position
  std::vector<int> made_from_;
  std::vector<double> enter_;  // what a segment pays once, by value
  std::vector<double> bytes_;  // the same
  // What readers that take turns pay for, each by itself.
  struct Returned {
    int value = 0;
    double price = 0;
    double bytes = 0;
  };
  std::vector<Returned> returned_;
  std::vector<int> returns_;  // places in returned_, by position
  std::vector<int> returns_from_;
  std::vector<Read> holds_;  // by position
  std::vector<int> holds_from_;
  std::vector<Change> changes_;  // by position
  std::vector<int> changes_from_;
  std::vector<bool> parts_close_;  // by boundary, 0 to size()
};

}  // namespace kerf::partitioner
