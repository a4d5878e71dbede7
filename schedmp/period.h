// What an endless schedule takes in the long run. Pure function.
#pragma once

#include "schedmp/unfold.h"

namespace kerf::schedmp {

struct Period {
  double takes = 0;   // of many that follow each other, on average
  double bubble = 0;  // of all workers' time, what they are idle
};

// Periods under way may take turns (of a short one and a long one), so that it is the mean of
// kMeanPeriods, a number that most turns divide; it comes after as many as prove the schedule
// (verify.h). Without jitter.
inline constexpr int kMeanPeriods = 60;
Period period_of(const Schedule& endless, const partitioner::StageGraph& graph,
                 const ActionCosts& costs);

}  // namespace kerf::schedmp
