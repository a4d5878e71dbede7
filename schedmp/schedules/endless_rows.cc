#include "schedmp/schedules/endless_rows.h"

#include "schedmp/schedules/distinct_groups.h"

namespace kerf::schedmp {

Schedule endless_rows(const std::string& name, const Pipeline& pipeline, int micro_batches,
                      const EndlessRule& rule) {
  placed_groups(shape_of(name), name, pipeline);
  Schedule schedule{name, micro_batches, pipeline.groups, {}};
  schedule.rows.resize(static_cast<size_t>(count_workers(pipeline.groups)));
  schedule.prologue.resize(schedule.rows.size());
  const std::vector<int> hops = hops_to_the_end(pipeline);
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const int ahead = hops[static_cast<size_t>(stage)];
    std::vector<Action> prologue, row;
    for (int mb = 0; mb < ahead; ++mb) prologue.push_back({stage, ActionKind::kForward, mb});
    for (int mb = 0; mb < micro_batches; ++mb) {
      row.push_back(rule.written({stage, ActionKind::kForward, mb + ahead}));
      row.push_back(rule.written({stage, ActionKind::kBackward, mb}));
      if (rule.updates(mb)) row.push_back({stage, ActionKind::kUpdate, mb});
    }
    for (const int worker : schedule.groups[static_cast<size_t>(stage)]) {
      schedule.prologue[static_cast<size_t>(worker)] = prologue;
      schedule.rows[static_cast<size_t>(worker)] = row;
    }
  }
  schedule.epilogue = last_period(schedule);
  return schedule;
}

}  // namespace kerf::schedmp
