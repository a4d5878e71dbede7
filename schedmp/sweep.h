// Many simulations of named schedules: of every combination of some schedules, workers,
// micro-batches and costs. Pure functions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "schedmp/staircase.h"

namespace kerf::schedmp {

struct Sweep {
  std::vector<std::string> schedules;  // by name
  std::vector<int> workers;
  std::vector<int> micro_batches;
  std::vector<ActionCosts> costs;  // with their links; of as many stages as they list, if they do
  int chunks = 0;                  // stages on each worker; 0: as each schedule has them

  size_t points() const;
};

// In the order of the loops: schedule, workers, costs, micro-batches.
struct SweptPoint {
  std::string schedule;
  int workers = 0;
  int micro_batches = 0;
  size_t costs = 0;     // their number
  std::string refused;  // why there is none; empty: there is
  bool endless = false;
  Bubble bubble;             // of an endless one a period's, in the long run; its span is then 0
  int peak_activations = 0;  // of the worker with most
};

// How many actions all of that would have, at most.
double most_actions(const Sweep& sweep);
// `sign` is called before each point with the part that is done, in actions. A combination that its
// schedule refuses, or that is too long, is a point that says why. Throws Error{kUsage} for a
// schedule that there is not.
std::vector<SweptPoint> swept(const Sweep& sweep, const std::function<void(double)>& sign);

}  // namespace kerf::schedmp
