// stage 0  F0 F1 F2       B0 F3 B1    B2    B3 U
// stage 1     F0 F1    B0 F2 B1 F3 B2    B3 U
// stage 2        F0 B0 F1 B1 F2 B2 F3 B3 U
//
// Stage s of p warms up with p - s - 1 forwards, so it never holds more than p - s micro-batches.
#include <algorithm>

#include "schedmp/schedules.h"

namespace kerf::schedmp {

namespace {

std::vector<Action> row_of(int stage, int stages, int micro_batches) {
  std::vector<Action> row;
  const int warm_up = std::min(micro_batches, stages - stage - 1);
  for (int mb = 0; mb < warm_up; ++mb) row.push_back({stage, ActionKind::kForward, mb});
  for (int mb = 0; mb < micro_batches; ++mb) {
    if (mb + warm_up < micro_batches) row.push_back({stage, ActionKind::kForward, mb + warm_up});
    row.push_back({stage, ActionKind::kBackward, mb});
  }
  row.push_back({stage, ActionKind::kUpdate});
  return row;
}

}  // namespace

Schedule one_f_one_b(const std::vector<std::vector<int>>& groups, int micro_batches) {
  Schedule schedule{"1f1b", micro_batches, groups, {}};
  schedule.rows.resize(static_cast<size_t>(count_workers(groups)));
  for (int stage = 0; stage < schedule.stages(); ++stage)
    for (const int worker : groups[static_cast<size_t>(stage)])
      schedule.rows[static_cast<size_t>(worker)] = row_of(stage, schedule.stages(), micro_batches);
  return schedule;
}

}  // namespace kerf::schedmp
