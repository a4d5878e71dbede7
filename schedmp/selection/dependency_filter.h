// The dependency filter of STRADS (Lee et al., NIPS 2014; Kim et al., EuroSys 2016), over every set
// that is in flight: variables that are updated side by side, from values that do not have each
// other's updates, must be nearly independent, or parallel coordinate descent diverges (Bradley et
// al., ICML 2011). Of all variables under way, no two have a |correlation| above the threshold.
//
//   queue(candidates)   wait in a queue: front  7 3 9 4
//   accept(id, most)    from the front on: 7, 9 join set `id`, 3 depends on 7 and stays in front
//   retire(id)          results of the set are folded in: it is in flight no more
//
// A candidate joins if it is known to depend on no variable of the set and of those in flight. A
// pair that is not known keeps it waiting like one that depends, until a worker's answer to
// wanted() is learned. Nobody starves: one that was passed over `patience` times is an elder, and
// whoever stands behind it joins only if known not to depend on it; so an elder in front joins at
// the latest when the sets that are in flight by then have retired, whatever the cache forgets.
//
// A variable depends on itself: queued twice, it is under way once. The same calls give the same
// sets. Time: accept() and wanted() look at all pairs of those that wait and those in flight. One
// thread.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "schedmp/selection/correlation_cache.h"

namespace kerf::schedmp {

struct DependencyOptions {
  // Measured on Lasso: 0.2 to 0.3 is good, 0.1 loses the tail, 0.5 diverges.
  double threshold = 0.25;
  int64_t most_pairs = int64_t{1} << 21;  // that are remembered: about 100 MB
  int patience = 8;                       // sets
};

// Variables whose correlations are asked for: those of each of the rows with each of the columns.
struct WantedPairs {
  std::vector<int64_t> rows;
  std::vector<int64_t> columns;
};

// The answer. Of columns of unit length x, x_i . x_j is the correlation of i and j; workers that
// hold some rows of the data each have a part of that sum.
struct GramBlock {
  std::vector<int64_t> rows;
  std::vector<int64_t> columns;
  std::vector<double> correlations;  // rows x columns, row-major
};

class DependencyFilter {
 public:
  // Throws Error{kUsage} of options that cannot be.
  explicit DependencyFilter(const DependencyOptions& options);

  // Behind those that wait.
  void queue(std::span<const int64_t> candidates);
  int64_t waiting() const { return std::ssize(waiting_); }

  // Up to so many candidates, in flight from now on under this id, of which no other set in flight
  // has one. None may join: an empty set, which is not in flight.
  std::vector<int64_t> accept(int64_t id, int64_t most);
  void retire(int64_t id);

  // Unknown pairs of candidates with those ahead of them and in flight, in a block of at most so
  // many correlations, at least 1; those that wait longest first. A pair is asked for once, and
  // again when its answer was forgotten. No rows: nothing is wanted.
  WantedPairs wanted(int64_t most_correlations);
  // Throws Error{kUsage} of a correlation that is not finite.
  void learn(const GramBlock& block);

 private:
  struct Candidate {
    int64_t variable = 0;
    int passed_over = 0;  // times
    // Sets from this number on were chosen not to depend on it.
    int64_t independent_from = std::numeric_limits<int64_t>::max();
  };
  struct InFlight {
    int64_t number = 0;  // of the sets that were ever chosen
    std::vector<int64_t> variables;
  };
  bool independent(int64_t variable, std::span<const int64_t> others);
  bool may_join(const Candidate& candidate, std::span<const int64_t> set,
                std::span<const int64_t> elders);

  DependencyOptions options_;
  CorrelationCache correlations_;
  std::deque<Candidate> waiting_;
  std::map<int64_t, InFlight> in_flight_;  // by id of the set
  int64_t sets_ = 0;
};

}  // namespace kerf::schedmp
