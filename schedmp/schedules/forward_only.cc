#include "schedmp/schedules.h"

namespace kerf::schedmp {

// Micro-batch by micro-batch, each through all stages: every worker's row is a part of one order in
// which everything can run.
Schedule forward_only(const std::vector<std::vector<int>>& groups, int micro_batches) {
  Schedule schedule{"forward-only", micro_batches, groups, {}};
  schedule.rows.resize(static_cast<size_t>(count_workers(groups)));
  for (int mb = 0; mb < micro_batches; ++mb)
    for (int stage = 0; stage < schedule.stages(); ++stage)
      for (const int worker : groups[static_cast<size_t>(stage)])
        schedule.rows[static_cast<size_t>(worker)].push_back({stage, ActionKind::kForward, mb});
  return schedule;
}

}  // namespace kerf::schedmp
