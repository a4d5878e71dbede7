// What a training run came to, for people and for programs.
#pragma once

#include <string>

#include "apps/kerf/run_training.h"
#include "runtime/json.h"
#include "runtime/trace.h"

namespace kerf::apps {

// Messages and bytes over a whole run.
struct Traffic {
  partitioner::Traffic predicted;
  partitioner::Traffic counted;
  bool equal = true;  // route by route
};
Traffic traffic_of(const Outcome& outcome);

Json train_report(const Planned& planned, const Outcome& outcome);
std::string train_text(const Outcome& outcome, bool colour);
// Throws Error{kInternal} that names the first route where they differ.
void check_traffic(const Planned& planned, const Outcome& outcome);
// On the scheduler's clock.
std::vector<runtime::WorkerTrace> traces_of(const Outcome& outcome);

}  // namespace kerf::apps
