// kerf schedule --model or --plan: proved on the lowered parts.
#include <algorithm>
#include <utility>

#include "apps/kerf/examined_schedule.h"
#include "apps/kerf/plan_schedule.h"
#include "apps/kerf/planned.h"
#include "apps/kerf/proof.h"
#include "apps/main/flag_values.h"
#include "schedmp/schedules.h"
#include "schedmp/search/plan_costs.h"
#include "schedmp/versions.h"

namespace kerf::apps {

namespace {

using Parts = std::vector<partitioner::Part>;

void take_found(const ScheduleFlags& flags, Planned& planned, ScheduleRecord& record) {
  ScheduleSearch what{{}, flags.search, flags.costs.seed};
  if (!flags.costs.costs.empty() && flags.costs.costs != kPlanCosts) {
    check_stages(flags.costs, record.costs, static_cast<int>(planned.plan.stages.size()));
    what.costs = record.costs;
  }
  take_devices(flags.costs, planned.plan.workers_bound(), record.costs);
  what.speeds = record.costs.speeds;
  schedmp::FoundSchedule found = search_plan(planned, what);
  const schedmp::ActionCosts asked = std::exchange(record.costs, *what.costs);
  record.costs.jitter = asked.jitter;
  record.costs.seed = asked.seed;
  record.costs.links = asked.links;
  // A plan that is made here has what the schedule needs.
  if (flags.plan_file.empty() && !flags.plan.slots)
    planned.setting.slots =
        std::max(planned.setting.slots, schedmp::smallest_buffer(found.schedule, record.graph));
  keep_found(std::move(found), record);
}

// As it is priced: over the links that it was made for, unless flags say which.
void take_plan_costs(const ScheduleFlags& flags, const Planned& planned, const Parts& parts,
                     schedmp::ActionCosts& costs) {
  const schedmp::ActionCosts asked =
      std::exchange(costs, schedmp::costs_of_plan(planned.model, planned.plan, parts));
  costs.jitter = asked.jitter;
  costs.seed = asked.seed;
  costs.links = schedmp::links_of_plan(planned.plan);
  costs.links.contention = asked.links.contention;
  if (asked.links.every) costs.links.every = asked.links.every;
  take_devices(flags.costs, planned.plan.workers_bound(), costs);
}

// What a simulation needs of the plan that costs do not say.
void take_bytes(const ScheduleFlags& flags, const Planned& planned, const Parts& parts,
                schedmp::ActionCosts& costs) {
  costs.bytes.resize(planned.plan.stages.size(), costs.other_bytes);
  for (schedmp::StageBytes& stage : costs.bytes) stage.kept = 0;
  if (parts.front().gradients) schedmp::add_kept_bytes(planned.model, planned.plan, parts, costs);
  if (!flags.costs.message_bytes &&
      std::none_of(costs.bytes.begin(), costs.bytes.end(),
                   [](const schedmp::StageBytes& stage) { return stage.sends(); }))
    schedmp::add_message_bytes(planned.model, planned.plan, costs);
}

Planned plan_of(const ScheduleFlags& flags) {
  PlanFlags of_plan = flags.plan;
  if (flags.searches()) {
    of_plan.schedule.reset();
    // Under a cap a plan may be cut for what holds least: the search has the rest.
    if (flags.plan.memory && flags.plan_file.empty()) of_plan.schedule = "naive";
  }
  return planned_by(of_plan, flags.plan_file);
}

void take_schedule(const ScheduleFlags& flags, const Planned& planned, ScheduleRecord& record) {
  const PlanSchedule found = schedule_of(flags.plan, planned);
  record.schedule = as_asked(flags, found.schedule, record.graph);
  note_drains(found);
}

// Those that were proved, where there are.
Parts parts_of(const Planned& planned, const schedmp::Schedule& schedule, Proof& proof) {
  if (!proof.parts.empty()) return std::move(proof.parts);
  return lowered_for(planned, schedule);
}

}  // namespace

ExaminedSchedule examine_on_plan(const ScheduleFlags& flags) {
  check_schedule_search_flags(flags.search, flags.plan.schedule.value_or(""));
  require(flags.buffer.empty(), "--buffer", "with a model or a plan it is --slots that says so");
  require(!flags.chunks, "--chunks",
          "with a model or a plan it is --stages-per-worker that says so");
  ExaminedSchedule examined;
  ScheduleRecord& record = examined.record;
  record.costs = costs_of(flags.costs);
  Planned planned = plan_of(flags);
  record.graph = partitioner::stage_graph_of(planned.model, planned.plan);
  if (flags.searches())
    take_found(flags, planned, record);
  else
    take_schedule(flags, planned, record);
  if (record.schedule.updates_within()) record.versions = schedmp::versions_of(record.schedule);
  record.slots = planned.setting.slots;
  if (!record.found) take_devices(flags.costs, record.schedule.workers(), record.costs);
  check_stages(flags.costs, record.costs, record.schedule.stages());
  Proof proof = prove(planned, record.schedule);
  record.problems = std::move(proof.problems);
  record.verdict = std::move(proof.verdict);
  record.verified = record.problems.empty();
  const Parts parts = parts_of(planned, record.schedule, proof);
  if (!record.found && flags.costs.costs == kPlanCosts)
    take_plan_costs(flags, planned, parts, record.costs);
  take_bytes(flags, planned, parts, record.costs);
  record.costs.shares = schedmp::shares_of(planned.plan);
  if (record.schedule.endless()) show_periods(flags, examined);
  return examined;
}

}  // namespace kerf::apps
