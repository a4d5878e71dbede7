// stage 0  F0 F1 F2 F3             B0 B1 B2 B3 U
// stage 1     F0 F1 F2 F3       B0 B1 B2 B3 U
// stage 2        F0 F1 F2 F3 B0 B1 B2 B3 U
//
// Backward goes up by micro-batch, as in every schedule here, so that gradients are summed alike.
#include "schedmp/schedules.h"

namespace kerf::schedmp {

Schedule gpipe(const std::vector<std::vector<int>>& groups, int micro_batches) {
  Schedule schedule = forward_only(groups, micro_batches);
  schedule.name = "gpipe";
  for (int stage = 0; stage < schedule.stages(); ++stage)
    for (const int worker : groups[static_cast<size_t>(stage)]) {
      std::vector<Action>& row = schedule.rows[static_cast<size_t>(worker)];
      for (int mb = 0; mb < micro_batches; ++mb) row.push_back({stage, ActionKind::kBackward, mb});
      row.push_back({stage, ActionKind::kUpdate});
    }
  return schedule;
}

}  // namespace kerf::schedmp
