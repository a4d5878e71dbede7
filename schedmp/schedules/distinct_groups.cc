#include "schedmp/schedules/distinct_groups.h"

#include <algorithm>
#include <map>
#include <set>

#include "runtime/error.h"

namespace kerf::schedmp {

namespace {

[[noreturn]] void refuse(const std::string& schedule, const std::string& why) {
  throw Error(ErrorCode::kUsage, kerf::format("schedule {} {}", schedule, why));
}

}  // namespace

DistinctGroups distinct_groups(const std::string& schedule, const Pipeline& pipeline) {
  DistinctGroups groups;
  std::map<std::set<int>, int> number;
  std::set<int> taken;
  for (const std::vector<int>& group : pipeline.groups) {
    const std::set<int> members(group.begin(), group.end());
    const auto [found, fresh] = number.emplace(members, groups.count());
    if (fresh) {
      for (const int worker : group)
        if (!taken.insert(worker).second)
          refuse(schedule,
                 kerf::format("has each worker in one group; worker {} is in several that "
                              "differ",
                              worker));
      groups.workers.push_back(group);
      groups.stages.emplace_back();
    }
    groups.stages[static_cast<size_t>(found->second)].push_back(
        static_cast<int>(groups.of_stage.size()));
    groups.of_stage.push_back(found->second);
  }
  return groups;
}

DistinctGroups placed_groups(const Shape& shape, const std::string& schedule,
                             const Pipeline& pipeline) {
  DistinctGroups groups = distinct_groups(schedule, pipeline);
  const int stages = pipeline.graph.stages();
  const int chunks = stages / groups.count();
  if (stages % groups.count() != 0 || !allows(shape, chunks))
    refuse(schedule, kerf::format("has {} on each worker; there are {} stages for {}",
                                  chunks_text(shape), stages, groups.count()));
  for (int stage = 0; stage < stages; ++stage) {
    const int must = place_of(shape.placement, stage, groups.count());
    if (groups.of_stage[static_cast<size_t>(stage)] == must) continue;
    refuse(schedule, kerf::format("places stages {}: stage {} must be where stage {} is",
                                  to_string(shape.placement), stage, must));
  }
  return groups;
}

Schedule with_rows(const std::string& name, const Pipeline& pipeline, const DistinctGroups& groups,
                   int micro_batches, const std::vector<std::vector<Action>>& rows) {
  Schedule schedule{name, micro_batches, pipeline.groups, {}};
  schedule.rows.resize(static_cast<size_t>(count_workers(pipeline.groups)));
  for (size_t group = 0; group < rows.size(); ++group)
    for (const int worker : groups.workers[group]) {
      std::vector<Action>& row = schedule.rows[static_cast<size_t>(worker)];
      row = rows[group];
      for (auto stage = groups.stages[group].rbegin(); stage != groups.stages[group].rend();
           ++stage)
        row.push_back({*stage, ActionKind::kUpdate});
    }
  return schedule;
}

}  // namespace kerf::schedmp
