// stage 0  F0             B0 F1             B1 U
// stage 1     F0       B0       F1       B1 U
// stage 2        F0 B0             F1 B1 U
//
// One micro-batch at a time, forward and back: model parallelism without a pipeline, against which
// pipelines are measured. Of p workers all but one are idle.
#include "schedmp/schedules.h"

namespace kerf::schedmp {

Schedule naive(const Pipeline& pipeline, int micro_batches) {
  Schedule schedule{"naive", micro_batches, pipeline.groups, {}};
  schedule.rows.resize(static_cast<size_t>(count_workers(pipeline.groups)));
  const int stages = schedule.stages();
  const auto add = [&](const Action& action) {
    for (const int worker : pipeline.groups[static_cast<size_t>(action.stage)])
      schedule.rows[static_cast<size_t>(worker)].push_back(action);
  };
  for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    for (int stage = 0; stage < stages; ++stage) add({stage, ActionKind::kForward, micro_batch});
    for (int stage = stages - 1; stage >= 0; --stage)
      add({stage, ActionKind::kBackward, micro_batch});
  }
  for (int stage = stages - 1; stage >= 0; --stage) add({stage, ActionKind::kUpdate});
  return schedule;
}

}  // namespace kerf::schedmp
