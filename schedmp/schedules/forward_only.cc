#include "schedmp/schedules/side_by_side.h"

namespace kerf::schedmp {

Schedule forward_only(const Pipeline& pipeline, int micro_batches) {
  Schedule schedule{"forward-only", micro_batches, pipeline.groups, {}};
  schedule.rows.resize(static_cast<size_t>(count_workers(pipeline.groups)));
  visit_forward(pipeline, micro_batches, [&](int stage, int micro_batch) {
    for (const int worker : pipeline.groups[static_cast<size_t>(stage)])
      schedule.rows[static_cast<size_t>(worker)].push_back(
          {stage, ActionKind::kForward, micro_batch});
  });
  return schedule;
}

}  // namespace kerf::schedmp
