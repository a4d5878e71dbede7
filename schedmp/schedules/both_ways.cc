#include "schedmp/schedules/both_ways.h"

#include <algorithm>
#include <set>

#include "runtime/error.h"

namespace kerf::schedmp {

int groups_both_ways(const std::string& schedule, const Pipeline& pipeline) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kUsage, kerf::format("schedule {} {}", schedule, why));
  };
  const int groups = pipeline.graph.stages();
  if (std::ssize(pipeline.groups) != 2 * groups) refuse("has two replicas of each stage");
  if (groups % 2 != 0)
    refuse(
        kerf::format("needs an even number of stages, not {}: the workers of the one in the middle "
                     "would have it in both replicas; use {} (--workers of a layer cut and of kerf "
                     "schedule, --stages of a hybrid cut)",
                     groups, groups == 1 ? "2" : kerf::format("{} or {}", groups - 1, groups + 1)));
  for (int stage = 0; stage < groups; ++stage)
    if (pipeline.groups[static_cast<size_t>(stage)] !=
        pipeline.groups[static_cast<size_t>(2 * groups - 1 - stage)])
      refuse(kerf::format("has stage {} of its second replica where stage {} of the first is",
                          groups - 1 - stage, stage));
  std::set<int> workers;
  for (int stage = 0; stage < groups; ++stage)
    for (const int worker : pipeline.groups[static_cast<size_t>(stage)])
      if (!workers.insert(worker).second)
        refuse(kerf::format("has one stage of each replica on a worker, and worker {} has several",
                            worker));
  return groups;
}

Schedule with_both_ways(const std::string& name, const Pipeline& pipeline,
                        const std::vector<int>& replica_of,
                        const std::vector<std::vector<Action>>& rows) {
  Schedule schedule{name, static_cast<int>(replica_of.size()), pipeline.groups, {}, 2, replica_of};
  schedule.rows.resize(static_cast<size_t>(count_workers(pipeline.groups)));
  const int groups = pipeline.graph.stages();
  for (int group = 0; group < groups; ++group)
    for (const int worker : pipeline.groups[static_cast<size_t>(group)]) {
      std::vector<Action>& row = schedule.rows[static_cast<size_t>(worker)];
      row = rows[static_cast<size_t>(group)];
      const int up = groups - 1 - group;
      const auto [low, high] = std::minmax(group, up);
      for (const ActionKind kind : {ActionKind::kReduceGradient, ActionKind::kUpdate})
        for (const int stage : {high, low}) row.push_back({stage, kind});
    }
  return schedule;
}

}  // namespace kerf::schedmp
