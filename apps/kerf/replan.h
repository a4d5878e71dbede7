// A plan made anew by what a run measured, beside the plan of that run: kerf plan --from-run.
#pragma once

#include <string>
#include <vector>

#include "apps/kerf/planned.h"
#include "runtime/json.h"

namespace kerf::apps {

// What of a weight a worker has to be given.
struct MovedWeight {
  std::string name;
  int to = 0;  // worker
  int64_t bytes = 0;
};

// By the plan made anew, of what the run's plan has elsewhere.
std::vector<MovedWeight> moved_weights(const Planned& run, const Planned& anew);

struct Replan {
  std::string folder;  // of the run
  partitioner::Plan before;
  std::vector<partitioner::WorkerPrediction> before_workers;  // by what was measured
  std::string profile;                                        // where that stands
  std::vector<MovedWeight> moved;
};

// The flags as the run's plan has them where they say nothing, and its profile.
PlanFlags flags_of_run(PlanFlags flags, const Planned& run, const std::string& folder);
Replan compare_with_run(const PlanFlags& flags, const Planned& run, const Planned& anew,
                        const std::string& folder);

Json replan_json(const Replan& replan);
std::string replan_text(const Replan& replan, const Planned& anew, bool colour);

}  // namespace kerf::apps
