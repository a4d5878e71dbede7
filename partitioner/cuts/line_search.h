// The best division of a line into stages: the least bottleneck, and the fewest bytes under one.
// Both exact for the line.
//
// Where prices grow with a segment: a probe at bottleneck B knows, by start, the furthest end of a
// segment within B (one sweep), hence which boundaries stage 0, 0 and 1, ... can end at; B is
// bisected. The fewest bytes under B are found by one sweep per stage over a tree of starts. A
// stage looks at the boundaries that it may begin and end at: w of n units, on average. Time
// O(k w (1 + E / n) log n) for k stages, E reads; memory O(k w + n) for each kind of stage.
//
// Where they do not (what leaves is paid for, or a backward half flows against the order): dynamic
// programming over (stages, boundaries) with the prices of all starts kept up to date, O(k n^2);
// beyond kMostBoundaries of them only boundaries spread evenly over the work are looked at.
#pragma once

#include <vector>

#include "partitioner/cuts/line.h"
#include "partitioner/cuts/steered_units.h"
#include "partitioner/cuts/trees.h"

namespace kerf::partitioner {

inline constexpr int kMostBoundaries = 3000;

// By stage.
struct StageLimits {
  std::vector<int> device_type;
  std::vector<int> micro_batches;  // in flight
  std::vector<double> memory;      // bytes; kNever: no limit
  // Of devices beside the others (hosts), which have memory enough and may be left out; -1: none.
  int host_type = -1;
  // Where the order of the stages is given: the worker of each, and what rules say of its units
  // (null: nothing). Empty: device types stand in any order.
  std::vector<int> worker = {};
  const UnitRules* rules = nullptr;
  bool is_ordered() const { return !worker.empty(); }
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
  // By start, the furthest end of a stage; of stages that are alike once.
  struct FurthestEnds {
    std::vector<std::vector<int>> each;
    std::vector<int> of;  // by stage
    const std::vector<int>& of_stage(int s) const {
      return each[static_cast<size_t>(of[static_cast<size_t>(s)])];
    }
  };
  // What is known of boundaries from `first` on.
  struct Reached {
    int first = 0;
    std::vector<double> bytes;  // that have entered so far; kNever: no stage ends here
    std::vector<int> starts;    // of the stage that ends here
    int last() const { return first + static_cast<int>(bytes.size()) - 1; }
  };

  int stages() const { return static_cast<int>(limits_.memory.size()); }
  FurthestEnds ends_within(double price) const;
  bool reaches_the_end(const FurthestEnds& furthest) const;
  Segmentation sweep(double price, const std::vector<bool>& forbidden) const;
  Reached sweep_stage(const Reached& before, const std::vector<int>& furthest,
                      const std::vector<bool>& forbidden) const;
  Segmentation scan(double price, bool of_bytes, const std::vector<bool>& forbidden) const;
  std::vector<int> spread_boundaries(const std::vector<bool>& forbidden) const;

  const Line& line_;
  const StageLimits& limits_;
  FurthestEnds memory_ends_;
};

}  // namespace kerf::partitioner
