// Layer cuts under caps on what stages take in all. What a stage needs beyond what its nodes hold
// (memory that comes and goes within it, slots) may show only on the finished division, so each
// division is handed to the caller, who says how much it is over. Where divisions are few, all are
// looked at; else the search is asked again, under limits on what nodes hold that follow from the
// divisions before.
//
// Borrows the search, whose bound is that of the best division without caps, or that of all that
// were looked at. Used by one thread.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "partitioner/cuts/layer_least.h"
#include "partitioner/cuts/layer_search.h"

namespace kerf::partitioner {

class CappedLayers {
 public:
  // Bytes that each stage takes beyond those it may (negative: fewer).
  using Over = std::function<std::vector<double>(const LayerDivision&)>;

  CappedLayers(LayerSearch& search, Over over) : search_(search), over_(std::move(over)) {}

  // The best, if none of its stages is over; the best that fits of all divisions, where they are
  // few; else the first one made under ever tighter limits that fits. None if none does.
  std::optional<LayerDivision> best(const StageLimits& limits);
  std::optional<LayerDivision> best() { return best(search_.limits()); }
  // Where best() found none: that whose fullest stage takes least, as least_peak() has it.
  std::optional<LayerDivision> least(const PeaksOfStages& peaks, double enough) const {
    return least_peak(search_, free_, peaks, enough);
  }
  // From what fits, and was found by the last best() or least(): the best of those whose stages
  // take beyond what their nodes hold what they take there.
  LayerDivision best_from(LayerDivision fits) const;

 private:
  std::optional<LayerDivision> best_of_few(std::vector<LayerDivision> few);

  LayerSearch& search_;
  const Over over_;
  // Of the last best(): the best without caps, and whether that fits; and whether it looked at all.
  std::optional<LayerDivision> free_;
  bool free_fits_ = false;
  bool looked_at_all_ = false;
};

}  // namespace kerf::partitioner
