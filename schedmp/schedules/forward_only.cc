#include "schedmp/schedules.h"

namespace kerf::schedmp {

Schedule forward_only(const std::vector<std::vector<int>>& groups, int micro_batches) {
  Schedule schedule{"forward-only", micro_batches, groups, {}};
  schedule.rows.resize(static_cast<size_t>(count_workers(groups)));
  for (int stage = 0; stage < schedule.stages(); ++stage)
    for (const int worker : groups[static_cast<size_t>(stage)])
      for (int mb = 0; mb < micro_batches; ++mb)
        schedule.rows[static_cast<size_t>(worker)].push_back({stage, ActionKind::kForward, mb});
  return schedule;
}

}  // namespace kerf::schedmp
