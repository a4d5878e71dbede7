// The search for a schedule: of stages whose costs are known, under a cap of micro-batches that
// each may keep. Starts from the built-in schedules that the cap allows and from list scheduling
// under some dozens of rules, improves the best by annealing, and says how far it is from what no
// schedule can beat; of few stages and micro-batches it finds a best one, and proves it.
// Zero-bubble schedules are such answers for equal stages (Qi et al. 2023, arXiv:2401.10241, whose
// grid of rules and integer programme this takes the place of).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "schedmp/schedules.h"

namespace kerf::schedmp {

struct SearchEffort {
  double seconds = 5;  // of annealing; list scheduling takes as long at most, or five
  uint64_t seed = 0;
  int64_t most_choices = int64_t{1} << 22;  // of the exact search; it takes some microseconds each
  // Called now and then with the part of the annealing that is over.
  std::function<void(double)> sign = [](double) {};
};

struct FoundSchedule {
  Schedule schedule;    // named "found"
  double makespan = 0;  // until the last action of a micro-batch ends, messages waiting for nobody
  double bound = 0;     // no schedule under the cap takes less
  bool best = false;    // proved: none takes less
  // What it was made from: a built-in schedule's name, "list scheduling" or "branch and bound".
  std::string origin;
  double gap() const { return bound > 0 ? makespan / bound - 1 : 0; }
};

// What 1F1B keeps, by stage: the cap unless one is given.
std::vector<int> kept_by_1f1b(const Pipeline& pipeline, int micro_batches);

// Throws Error{kUsage} where a worker has several stages, or `keep` has another number of stages or
// less than one micro-batch.
FoundSchedule search_schedule(const Pipeline& pipeline, int micro_batches, const ActionCosts& costs,
                              const std::vector<int>& keep, const SearchEffort& effort = {});

}  // namespace kerf::schedmp
