// The layer cut of a cost graph: segments of the best of a few topological orders of its units.
// Least bottleneck first, then fewest bytes among all divisions that keep it.
//
// Over the best of these orders this equalled the exact optimum over all acyclic divisions in 24 of
// 26 networks where that can be enumerated (Jeon et al. 2020 and Tarnawski et al. 2020 enumerate
// the ideals of the DAG), at worst 0.9 % above it; and in seven of ten random graphs of eight
// nodes, at worst a third above it. Under a cap on memory that few divisions meet, none of these
// orders may have one (tests/partitioner/graph_bounds_test.cc). Borrows the graph; used by one
// thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/bound.h"
#include "partitioner/cuts/line_search.h"

namespace kerf::partitioner {

struct LayerDivision {
  std::vector<std::vector<int>> stages;  // of nodes, ascending
  double bottleneck = 0;
  std::vector<double> memory;  // of what the nodes hold, by stage: bytes
};

class LayerSearch {
 public:
  // `limits` has one entry per stage; its memory is ignored.
  LayerSearch(const CostGraph& graph, StageLimits limits);

  int units() const { return units_.size(); }
  // No division of the graph into so many stages has a lower bottleneck.
  Bound bound() const;

  // None if no division gives each stage a unit.
  std::optional<LayerDivision> best() const;
  // What a stage needs beyond what its nodes hold may show only on the division: `peaks` says
  // what each stage takes. Divisions are made under ever tighter limits, until one meets the cap
  // or there is none.
  using Peaks = std::function<std::vector<double>(const LayerDivision&)>;
  std::optional<LayerDivision> best_within(int64_t cap, const Peaks& peaks) const;
  // Whether any division's stages hold at most `cap` bytes each, whatever their bottleneck.
  bool has_division_within(int64_t cap) const;

 private:
  std::optional<LayerDivision> best_under(const StageLimits& limits) const;
  LayerDivision division_of(const Line& line, const Segmentation& division) const;

  const CostGraph& graph_;
  StageLimits limits_;
  Units units_;
  std::vector<Line> lines_;
};

}  // namespace kerf::partitioner
