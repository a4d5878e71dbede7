// Whether a schedule can run a plan: its order, what it fits, that it ends, and that it keeps
// within the cap. `kerf schedule` tells it, `kerf plan --check` looks at it, and a run is refused
// without.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/kerf/planned.h"
#include "schedmp/schedule.h"
#include "schedmp/verify.h"

namespace kerf::apps {

struct Proof {
  std::vector<std::string> problems;        // none: it is proved
  std::optional<schedmp::Verdict> verdict;  // where the schedule fits the plan
  std::vector<partitioner::Part> parts;     // likewise: as they were lowered for it
};

// For its setting, with the lists of the schedule's rows.
std::vector<partitioner::Part> lowered_for(const Planned& planned,
                                           const schedmp::Schedule& schedule);

Proof prove(const Planned& planned, const schedmp::Schedule& schedule);

}  // namespace kerf::apps
