// What workers keep of micro-batches, of all their stages together: those whose F is done and whose
// W is not, less those that are offloaded, or have yet to be recomputed. Pure functions.
#pragma once

#include <vector>

#include "schedmp/unfold.h"

namespace kerf::schedmp {

// By worker, at most. Where nothing has gradients: 0.
std::vector<int> peak_activations(const Schedule& schedule);

// From that time on, until the next. A change is counted when its action ends: while a forward
// runs, its own activations are not yet among them.
struct Kept {
  double time = 0;
  int micro_batches = 0;
  double bytes = 0;  // by what the costs say that a micro-batch takes
  bool operator==(const Kept&) const = default;
};
// Of a worker of a schedule that trains, in order of time; nothing of one that keeps nothing.
// `unfolded` is of this schedule and of these costs. O(its actions).
std::vector<Kept> kept_over_time(const Schedule& schedule, const Unfolded& unfolded,
                                 const ActionCosts& costs, int worker);

// The most of a worker, and when it first is there.
struct KeptPeak {
  int micro_batches = 0;
  double time = 0;
  double bytes = 0;
  double time_of_bytes = 0;
};
KeptPeak peak_of(const std::vector<Kept>& of_worker);

}  // namespace kerf::schedmp
