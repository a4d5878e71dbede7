// Layer cuts under caps on what stages take in all. What a stage needs beyond what its nodes hold
// (memory that comes and goes within it, slots) may show only on the finished division, so each
// division is handed to the caller, who says how much it is over. Where divisions are few, all are
// looked at; else the search is asked again, under limits on what nodes hold that follow from the
// divisions before.
//
// Borrows the search, which outlives it. After best() its bound is that of the best division
// without caps, or, where all were looked at and one fits, that of those that fit. Used by one
// thread.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "partitioner/cuts/layer_search.h"
#include "partitioner/cuts/least_peak.h"

namespace kerf::partitioner {

class CappedLayers {
 public:
  // Bytes that each stage takes beyond those it may (negative: fewer).
  using Over = std::function<std::vector<double>(const LayerDivision&)>;

  CappedLayers(LayerSearch& search, Over over) : search_(search), over_(std::move(over)) {}

  // The best, if none of its stages is over; the best that fits of all divisions, where they are
  // few; else the first one made under ever tighter limits that fits. None if none does. `limits`:
  // on as many stages as the search has; their memory is ignored. Unless stages are ordered, the
  // search keeps the line of the best without caps.
  std::optional<LayerDivision> best(const StageLimits& limits);
  std::optional<LayerDivision> best() { return best(search_.limits()); }
  // After a best() under the search's own limits that found none: the division whose fullest stage
  // takes least, as least_peak() has it. It may still be over. `enough`: bytes.
  std::optional<LayerDivision> least(const PeaksOfStages& peaks, double enough) const {
    return least_peak(search_, uncapped_, peaks, enough);
  }
  // Whether the last best() looked at every division that there is.
  bool looked_at_all() const { return looked_at_all_; }
  // From a division that fits, which such a best() or the least() after it found: a better one that
  // fits, looked for as if stages took, beyond what their nodes hold, what they take in the last
  // one made; else the same. Needs no other search in between.
  LayerDivision best_from(LayerDivision fits);

 private:
  LayerSearch& search_;
  const Over over_;
  // Of the last best(): the best without caps, and whether that fits; and whether it looked at all.
  std::optional<LayerDivision> uncapped_;
  bool uncapped_fits_ = false;
  bool looked_at_all_ = false;
};

}  // namespace kerf::partitioner
