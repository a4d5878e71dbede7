// The best division of a line into stages: the least bottleneck, and the fewest bytes under one.
// Both exact for the line.
//
// Where prices grow with a segment: a probe at bottleneck B knows, by start, the furthest end of a
// segment within B (one sweep), hence which boundaries stage 0, 0 and 1, ... can end at; B is
// bisected. The fewest bytes under B are found by one sweep per stage over a tree of starts. Time
// O(k (n + E) log n) for k stages, n units, E reads; memory O(k n).
//
// Where they do not (what leaves is paid for, or a backward half flows against the order): dynamic
// programming over (stages, boundaries) with the prices of all starts kept up to date, O(k n^2);
// beyond kMostBoundaries of them only boundaries spread evenly over the work are looked at.
#pragma once

#include <vector>

#include "partitioner/cuts/line.h"
#include "partitioner/cuts/trees.h"

namespace kerf::partitioner {

inline constexpr int kMostBoundaries = 3000;

// By stage.
struct StageLimits {
  // Of this line, by start: the furthest end of a segment; none: no limit.
  std::vector<std::vector<int>> ends = {};
  std::vector<int> device_type;
  std::vector<int> micro_batches;  // in flight
  std::vector<double> memory;      // bytes; kNever: no limit
  // Of devices beside the others (hosts), which have memory enough and may be left out; -1: none.
  int host_type = -1;
};

struct Segmentation {
  double value = kNever;  // bottleneck or bytes; kNever: there is none
  std::vector<int> ends;  // of each stage, exclusive
  bool found() const { return value < kNever; }
};

class LineSearch {
 public:
  LineSearch(const Line& line, const StageLimits& limits);

  // Whether there is a division within the limits of memory.
  bool has_division() const { return reaches_the_end(memory_ends_); }
  // The least bottleneck; kNever if there is no division, or none below `enough`, a bottleneck that
  // is had already. `bound`: none is lower.
  double least_bottleneck(double bound, double enough) const;
  // Of the divisions with no stage above `bottleneck`, that of the fewest bytes; of equals the one
  // with the longest last stages. `keep_close`: boundaries part no units that are better together.
  Segmentation fewest_bytes(double bottleneck, bool keep_close) const;

 private:
  int stages() const { return static_cast<int>(limits_.memory.size()); }
  std::vector<std::vector<int>> ends_within(double price) const;
  bool reaches_the_end(const std::vector<std::vector<int>>& furthest) const;
  Segmentation sweep(double price, const std::vector<bool>& forbidden) const;
  Segmentation scan(double price, bool of_bytes, const std::vector<bool>& forbidden) const;
  std::vector<int> spread_boundaries(const std::vector<bool>& forbidden) const;

  const Line& line_;
  const StageLimits& limits_;
  std::vector<std::vector<int>> memory_ends_;  // by stage
};

}  // namespace kerf::partitioner
