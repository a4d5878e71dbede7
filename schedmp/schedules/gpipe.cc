// stage 0  F0 F1 F2 F3             B0 B1 B2 B3 U
// stage 1     F0 F1 F2 F3       B0 B1 B2 B3 U
// stage 2        F0 F1 F2 F3 B0 B1 B2 B3 U
//
// Backward goes up by micro-batch, as in every schedule here, so that gradients are summed alike.
#include "schedmp/schedules/side_by_side.h"

namespace kerf::schedmp {

Schedule gpipe(const Pipeline& pipeline, int micro_batches) {
  Schedule schedule = forward_only(pipeline, micro_batches);
  schedule.name = "gpipe";
  const auto add = [&](int stage, ActionKind kind, int micro_batch) {
    for (const int worker : pipeline.groups[static_cast<size_t>(stage)])
      schedule.rows[static_cast<size_t>(worker)].push_back({stage, kind, micro_batch});
  };
  visit_backward(pipeline, micro_batches, [&](int stage, int micro_batch) {
    add(stage, ActionKind::kBackward, micro_batch);
  });
  for (int stage = schedule.stages() - 1; stage >= 0; --stage) add(stage, ActionKind::kUpdate, -1);
  return schedule;
}

}  // namespace kerf::schedmp
