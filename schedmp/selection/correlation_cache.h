// Correlations of pairs of variables, as many as fit a bound: what the scheduler knows of how
// variables depend on each other, while it holds none of their data.
//
// Two generations: what is learned or asked for moves to the young one; once that has half of the
// bound, the old one is forgotten and the young one becomes the old. So the pairs used last, half
// of the bound at least, are always known, and what is forgotten does not depend on how anything is
// hashed. One thread.
#pragma once

#include <cstdint>
#include <optional>

#include "schedmp/selection/pair_table.h"

namespace kerf::schedmp {

class CorrelationCache {
 public:
  // Throws Error{kUsage} unless it may hold at least two pairs.
  explicit CorrelationCache(int64_t most_pairs);

  // A pair is of two different variables, and the same either way round.
  void learn(int64_t variable, int64_t other, double correlation);
  // Empty: not known, or forgotten.
  std::optional<double> find(int64_t variable, int64_t other);

  // Whether the pair has to be asked for: it is not known, and no answer is on its way, or that was
  // forgotten, too.
  bool is_missing(int64_t variable, int64_t other);
  // The pair was asked for.
  void expect(int64_t variable, int64_t other);

  // At most as many as it may hold; some are in both generations.
  int64_t held() const { return young_.size() + old_.size(); }

 private:
  std::optional<double> used(int64_t variable, int64_t other);
  void keep(int64_t variable, int64_t other, double correlation);

  int64_t most_young_;
  PairTable young_, old_;  // not a number: on its way
};

}  // namespace kerf::schedmp
