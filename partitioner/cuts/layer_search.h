// The layer cut of a cost graph: least bottleneck first, then fewest bytes among all divisions that
// keep it, or that are within a share of it (`slack`).
//
// Where the ideals of the graph can be enumerated, over all divisions that there are
// (cuts/ideal_search.h), which proves the bottleneck to be the least. Beyond that over the segments
// of topological orders of its units (cuts/line_search.h), and of one that the best division of
// coarser units suggests. Graphs of more than kMostFineUnits are made coarser at once.
//
// Borrows the graph; used by one thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/bound.h"
#include "partitioner/coarse_units.h"
#include "partitioner/cuts/ideal_search.h"
#include "partitioner/cuts/line_search.h"
#include "partitioner/ideals.h"
#include "partitioner/search_effort.h"

namespace kerf::partitioner {

struct LayerDivision {
  std::vector<std::vector<int>> stages;  // of nodes, ascending
  std::vector<int> device_types;         // by stage
  std::vector<double> memory;            // of what the nodes hold, by stage: bytes
};

class LayerSearch {
 public:
  // `limits` has one entry per stage; its memory is ignored, its device types stand in any order.
  // `slack`: bytes are saved up to (1 + slack) times the least bottleneck.
  LayerSearch(const CostGraph& graph, StageLimits limits, double slack = 0,
              const SearchEffort& effort = {});

  int units() const { return count_; }
  // No division of the graph into so many stages has a lower bottleneck, or none within the cap of
  // the last search where stages take what their nodes hold. What a search proves raises it.
  const Bound& bound() const { return bound_; }

  // None if no division gives each stage a unit.
  std::optional<LayerDivision> best();
  // What a stage needs beyond what its nodes hold may show only on the division: `peaks` says
  // what each stage takes; without it, no more than that. Divisions are made under ever tighter
  // limits, until one meets the cap or there is none.
  using Peaks = std::function<std::vector<double>(const LayerDivision&)>;
  std::optional<LayerDivision> best_within(int64_t cap, const Peaks& peaks = {});
  // Least bytes, if more than `fails` and at most `enough`, within which a division is found whose
  // stages hold no more, whatever their bottleneck; else `enough`.
  int64_t least_cap(int64_t fails, int64_t enough) const;

 private:
  // A division in the making: a line, its limits (of one order of device types), and its ends.
  struct Found {
    const Line* line = nullptr;
    const StageLimits* limits = nullptr;
    Segmentation segments;
  };
  struct Attempt;

  Bound simple_bound() const;
  std::vector<StageLimits> type_orders(const StageLimits& limits) const;
  std::optional<LayerDivision> best_under(const StageLimits& limits, bool proves);
  void improve_bottleneck(Attempt& attempt, bool proves);
  Found fewest_bytes(Attempt& attempt, double price, bool keep_close);
  void add_chain(Attempt& attempt, const IdealChain& chain) const;
  LayerDivision division_of(const Found& found) const;

  const CostGraph& graph_;
  StageLimits limits_;
  double slack_;
  SearchEffort effort_;
  Units units_;
  int count_ = 0;  // of units before they were made coarser
  bool coarse_ = false;
  std::vector<Line> lines_;
  std::optional<Ideals> ideals_;        // of the units, or, where there are too many,
  std::optional<CoarseUnits> coarser_;  // of coarser ones
  std::optional<Ideals> coarser_ideals_;
  Bound simple_;  // that needs no search
  Bound bound_;
};

}  // namespace kerf::partitioner
