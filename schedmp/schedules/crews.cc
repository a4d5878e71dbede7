#include "schedmp/schedules/crews.h"

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

Crews crews_of(const std::string& schedule, const Pipeline& pipeline) {
  Crews crews;
  std::map<std::set<int>, int> number;
  std::set<int> taken;
  for (const std::vector<int>& group : pipeline.groups) {
    const std::set<int> members(group.begin(), group.end());
    const auto [found, fresh] = number.emplace(members, crews.count());
    if (fresh) {
      for (const int worker : group)
        if (!taken.insert(worker).second)
          refuse(schedule,
                 kerf::format("has each worker in one group; worker {} is in several that "
                              "differ",
                              worker));
      crews.workers.push_back(group);
      crews.stages.emplace_back();
    }
    crews.stages[static_cast<size_t>(found->second)].push_back(
        static_cast<int>(crews.of_stage.size()));
    crews.of_stage.push_back(found->second);
  }
  return crews;
}

Crews crews_in(const Shape& shape, const std::string& schedule, const Pipeline& pipeline) {
  Crews crews = crews_of(schedule, pipeline);
  const int stages = pipeline.graph.stages();
  const int chunks = stages / crews.count();
  if (stages % crews.count() != 0 || !allows(shape, chunks))
    refuse(schedule, kerf::format("has {} on each worker; there are {} stages for {}",
                                  chunks_text(shape), stages, crews.count()));
  for (int stage = 0; stage < stages; ++stage) {
    const int must = place_of(shape.placement, stage, crews.count());
    if (crews.of_stage[static_cast<size_t>(stage)] == must) continue;
    refuse(schedule,
           kerf::format("places stages {}: stage {} must be with stage {}, which is not so",
                        to_string(shape.placement), stage, must));
  }
  return crews;
}

Schedule with_rows(const std::string& name, const Pipeline& pipeline, const Crews& crews,
                   int micro_batches, const std::vector<std::vector<Action>>& rows) {
  Schedule schedule{name, micro_batches, pipeline.groups, {}};
  schedule.rows.resize(static_cast<size_t>(count_workers(pipeline.groups)));
  for (size_t crew = 0; crew < rows.size(); ++crew)
    for (const int worker : crews.workers[crew]) {
      std::vector<Action>& row = schedule.rows[static_cast<size_t>(worker)];
      row = rows[crew];
      for (auto stage = crews.stages[crew].rbegin(); stage != crews.stages[crew].rend(); ++stage)
        row.push_back({*stage, ActionKind::kUpdate});
    }
  return schedule;
}

}  // namespace kerf::schedmp
