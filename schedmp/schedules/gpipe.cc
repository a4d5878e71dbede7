// stage 0  F0 F1 F2 F3             B0 B1 B2 B3 U
// stage 1     F0 F1 F2 F3       B0 B1 B2 B3 U
// stage 2        F0 F1 F2 F3 B0 B1 B2 B3 U
//
// Backward goes up by micro-batch, as in every schedule here, so that gradients are summed alike. A
// worker of several stages takes each micro-batch through all of them, backward from the last, so
// that a stage never waits with a second message for what the same worker has yet to receive.
#include "schedmp/schedules.h"

namespace kerf::schedmp {

Schedule gpipe(const std::vector<std::vector<int>>& groups, int micro_batches) {
  Schedule schedule = forward_only(groups, micro_batches);
  schedule.name = "gpipe";
  const auto add = [&](int stage, ActionKind kind, int micro_batch) {
    for (const int worker : groups[static_cast<size_t>(stage)])
      schedule.rows[static_cast<size_t>(worker)].push_back({stage, kind, micro_batch});
  };
  for (int mb = 0; mb < micro_batches; ++mb)
    for (int stage = schedule.stages() - 1; stage >= 0; --stage)
      add(stage, ActionKind::kBackward, mb);
  for (int stage = schedule.stages() - 1; stage >= 0; --stage) add(stage, ActionKind::kUpdate, -1);
  return schedule;
}

}  // namespace kerf::schedmp
