#include "schedmp/schedules/side_by_side.h"

namespace kerf::schedmp {

// In the order of one replica, which is one in which nobody waits for what comes later.
Schedule forward_only(const Pipeline& pipeline, int micro_batches) {
  Schedule schedule{"forward-only", micro_batches, pipeline.groups, {}};
  schedule.rows.resize(static_cast<size_t>(count_workers(pipeline.groups)));
  schedule.replicas = static_cast<int>(pipeline.groups.size()) / pipeline.graph.stages();
  schedule.replica_of = pipeline.replica_of;
  Pipeline first = pipeline;
  first.groups.resize(static_cast<size_t>(pipeline.graph.stages()));
  visit_forward(first, micro_batches, [&](int stage, int micro_batch) {
    for (const int worker : pipeline.groups[schedule.group(stage, micro_batch)])
      schedule.rows[static_cast<size_t>(worker)].push_back(
          {stage, ActionKind::kForward, micro_batch});
  });
  return schedule;
}

}  // namespace kerf::schedmp
