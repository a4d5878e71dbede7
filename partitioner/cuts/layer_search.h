// The layer cut of a cost graph: least bottleneck first, then fewest bytes among all divisions that
// keep it, or that are within a share of it (`slack`).
//
// Where the ideals of the graph can be enumerated, over all divisions that there are
// (cuts/ideal_search.h), which proves the bottleneck to be the least. Beyond that over the segments
// of topological orders of its units (cuts/line_search.h), and of one that the best division of
// coarser units suggests. Graphs of more than kMostFineUnits are made coarser at once.
//
// A bound holds for every division whose stages have no cycle in either half (has_acyclic_stages):
// where the backward half is not tied to the forward one, the proof leaves it free, and a division
// that is better so is looked for, too (layer_ways.cc), unless a cap leaves none that runs as the
// units do. Caps on what nodes hold: layer_memory.cc; all divisions, where they are few:
// layer_few.cc; the front: layer_front.cc. Caps that show on the finished division only:
// capped_layers.h.
//
// Borrows the graph; used by one thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
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
  std::vector<double> prices;            // by stage
  double fullest = 0;                    // the most memory of a stage, hosts left aside
  double bottleneck = 0;
  double bytes = 0;  // that enter stages

  std::vector<int> stage_of(int nodes) const;  // by node, of so many
};

inline constexpr double kBetter = 1e-9;  // by a smaller part nothing is better

// Those of which none is better in bottleneck, bytes and memory of the fullest stage, each once; by
// bottleneck.
std::vector<LayerDivision> none_better(const std::vector<LayerDivision>& divisions);

class LayerSearch {
 public:
  // `limits` has one entry per stage; its memory is ignored, its device types stand in any order
  // unless that is given.
  // `slack`: bytes are saved up to (1 + slack) times the least bottleneck.
  LayerSearch(const CostGraph& graph, StageLimits limits, double slack = 0,
              const SearchEffort& effort = {});
  // Divisions that run the graph's backward half in the way that `units` do.
  LayerSearch(const CostGraph& graph, Units units, StageLimits limits, double slack,
              const SearchEffort& effort);

  int units() const { return count_; }
  // No division of the graph into so many stages, however its backward half runs, has a lower
  // bottleneck, or none within the cap of the last search where stages take what their nodes hold,
  // or, after best_of_few(), none that fits.
  // What a search proves raises it, and its witness tells where the last one proved that nothing
  // within the slack has fewer bytes.
  Bound bound() const;
  // The same of divisions whose backward half runs as that of the units.
  Bound bound_of_way() const {
    return bound_of_way_.value > bound_.value ? bound_of_way_ : bound();
  }
  // The least that the last search found.
  double least_bottleneck() const { return least_; }
  // What is known of it without a search: all work by the stages, or the heaviest unit.
  const Bound& simple_bound() const { return simple_; }

  const StageLimits& limits() const { return limits_; }
  double slack() const { return slack_; }
  // Bytes that all nodes hold, with as many micro-batches in flight as the stage that has most.
  double all_held() const;

  // One more line to look for divisions on: a topological order of the units, which must not have
  // been joined, or the order in which a division of whole units has them.
  void add_line(std::vector<int> order);
  void add_line(const LayerDivision& division);

  // None if no division gives each stage a unit.
  std::optional<LayerDivision> best() { return best_of(limits_); }
  // The same under other limits on as many stages; the bound is that of these.
  std::optional<LayerDivision> best_of(const StageLimits& limits);
  // Of those whose stages hold at most `cap` bytes each.
  std::optional<LayerDivision> best_within(int64_t cap);
  // The same for one of many queries, quickly: on lines alone unless stages are ordered. Proves
  // nothing, and takes the bound of the last best_of() for its own, so that `limits` must be no
  // looser than that one's. That bound stays, without what its witness says of bytes;
  // least_bottleneck() is this one's.
  std::optional<LayerDivision> another_of(const StageLimits& limits) {
    return best_under(limits, false);
  }
  // Least bytes, if more than `fails` and at most `enough`, within which a division is found whose
  // stages hold no more, whatever their bottleneck; else `enough`. With that division, unless it
  // takes another search (of long lines not every boundary is tried).
  struct LeastCap {
    int64_t bytes = 0;
    std::optional<LayerDivision> division = {};
  };
  // `beyond`: what each stage takes beyond what its nodes hold; empty: nothing.
  LeastCap least_cap(int64_t fails, int64_t enough, const std::vector<double>& beyond = {}) const;
  // Divisions of which none is better in bottleneck, bytes and memory of the fullest stage; by
  // bottleneck, and those within half a percent of another may be left out.
  std::vector<LayerDivision> front(std::optional<int64_t> cap);

  // Every division that there is which the rules of `limits` allow, whatever its memory. None where
  // they are many, or where chains of ideals are not all: of joined units, of device types in any
  // order, with hosts, and where the backward half may run otherwise.
  std::optional<std::vector<LayerDivision>> few_divisions(const StageLimits& limits) const;
  // Of all these the best that fits; the bound is then the least bottleneck of those that fit. None
  // if none fits: then the bound stays.
  std::optional<LayerDivision> best_of_few(std::vector<LayerDivision> few,
                                           const std::function<bool(const LayerDivision&)>& fits);
  // A division of whole units as segments of a line on which these stand by stage. The line borrows
  // the units of the search.
  struct Segmented {
    Line line;
    std::vector<int> ends;  // by stage, exclusive; the last is that of the line
  };
  Segmented segmented(const LayerDivision& division) const;
  // The division of a line of this search at these ends, whatever its memory and the rules.
  LayerDivision division_of(const Line& line, const StageLimits& limits,
                            const std::vector<int>& ends) const;

 private:
  // All lines that divisions under some limits are looked for on.
  struct Candidate {
    const Line* line = nullptr;
    const StageLimits* limits = nullptr;  // of one order of device types
    LineSearch search;
  };
  struct Attempt {
    StageLimits limits;
    bool over_ideals = true;  // where they are enumerated, or on lines alone
    std::deque<StageLimits> orders = {};
    std::deque<Line> lines = {};  // beside the search's own
    std::deque<Candidate> candidates = {};
    double bottleneck = kNever;
    std::optional<IdealChain> chain = {};      // that has it, where no line does
    std::shared_ptr<IdealSearch> search = {};  // made when it is asked for
    bool none_fewer = false;                   // bytes, of all that there are

    void add(const Line& line, const StageLimits& order) {
      candidates.push_back({&line, &order, LineSearch(line, order)});
    }
  };
  struct Found {
    const Candidate* candidate = nullptr;
    Segmentation segments = {};
    // Of fewer bytes than the line of its own order knows of: lines price what gradients return at
    // no less than it takes.
    std::optional<IdealChain> chain = {};
    bool none_fewer = false;
  };
  // On what ideals are searched: the units, or coarser ones.
  IdealSearch& search_of(Attempt& attempt) const;
  const IdealFacts& searched_facts() const;
  const Units& searched_units() const { return ideals_ ? units_ : coarser_->units; }
  const std::optional<Ideals>& searched_ideals() const {
    return ideals_ ? ideals_ : coarser_ideals_;
  }

  static StageLimits with_types(const StageLimits& limits, const std::vector<int>& types);
  int64_t visits() const;
  Bound find_simple_bound(const Units& units);  // and the heaviest unit, where that sets it
  std::string heaviest_name() const;
  std::vector<StageLimits> type_orders(const StageLimits& limits) const;
  void start(Attempt& attempt) const;
  void find_bottleneck(Attempt& attempt, bool proves);
  void improve_bottleneck(Attempt& attempt, bool proves);
  bool may_prove(const Attempt& attempt) const;
  bool prove_by_heaviest(const Attempt& attempt);
  void prove(const Attempt& attempt, const IdealChain& found);
  void find_freed();
  void look_otherwise(const Attempt& attempt, const IdealChain& least);
  LayerDivision best_of_ways(Attempt& attempt);
  std::optional<LayerDivision> best_under(const StageLimits& limits, bool proves);
  std::optional<LayerDivision> fewest_bytes(Attempt& attempt, double price) const;
  Found fewest_bytes(Attempt& attempt, double price, bool keep_close) const;
  void add_chain(Attempt& attempt, const IdealChain& chain) const;
  double find_least_memory() const;
  void improve_cap(int64_t fails, LeastCap& least) const;
  std::vector<int> order_by_stage(const LayerDivision& division) const;
  LayerDivision division_of(const Found& found) const;
  LayerDivision division_of(const IdealChain& chain, const StageLimits& given) const;
  static LayerDivision division_of(const Units& units, const Ideals& ideals,
                                   const IdealChain& chain, const StageLimits& given);
  void add_front(const StageLimits& limits, std::vector<LayerDivision>& found);
  std::optional<LayerDivision> holding_less(const LayerDivision& than) const;

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
  mutable std::optional<IdealFacts> facts_;  // of the ideals that are searched, once they are
  // Where the backward half might run otherwise, and so be divided otherwise: units that leave it
  // free, for which all is proved.
  std::optional<Units> freed_;
  std::optional<Ideals> freed_ideals_;
  bool one_way_ = true;                     // whether there are no such other divisions
  std::optional<LayerDivision> otherwise_;  // one of these, better than the last search's
  double least_memory_ = 0;                 // that the fullest stage holds, at the least
  double largest_wire_ = 0;                 // of what enters or leaves at once
  double least_ = kNever;
  bool none_fewer_ = false;
  int heaviest_ = -1;  // unit that is more than a stage's share; of the freed ones where these are
  Bound simple_;       // that needs no search
  Bound bound_;
  Bound bound_of_way_;
};

}  // namespace kerf::partitioner
