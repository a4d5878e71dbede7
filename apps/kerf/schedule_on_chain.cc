// kerf schedule without a model or a plan: proved on the graph of its stages.
#include <algorithm>
#include <utility>

#include "apps/kerf/examined_schedule.h"
#include "apps/kerf/plan_schedule.h"
#include "apps/main/flag_values.h"
#include "apps/report/table.h"
#include "partitioner/capacities.h"
#include "schedmp/check_transfers.h"
#include "schedmp/schedules.h"

namespace kerf::apps {

namespace {

void check_flags(const ScheduleFlags& flags) {
  require(flags.needs_plan.empty(), flags.needs_plan, "it needs --model or --plan");
  require(flags.costs.costs != kPlanCosts, "--costs",
          "what a plan is priced by needs --model or --plan");
  check_schedule_search_flags(flags.search, flags.plan.schedule.value_or(""));
  require(
      flags.plan.given_sizes.empty(), "--micro-batches",
      format("{} are rows, of a model's step: give --model or --plan, or how many "
             "micro-batches there are: --micro-batches {}",
             partitioner::sizes_text(0, flags.plan.given_sizes), flags.plan.given_sizes.size()));
}

void take_found(const ScheduleFlags& flags, ScheduleRecord& record) {
  require(!flags.chunks, "--chunks", "a search has one stage on each worker; leave it out");
  const int workers = flags.plan.workers.value_or(flags.plan.default_workers);
  take_devices(flags.costs, workers, record.costs);
  check_stages(flags.costs, record.costs, workers);
  record.graph = partitioner::chain_of_stages(workers);
  keep_found(search_chain(workers, flags.plan.micro_batches.value_or(8),
                          {record.costs, flags.search, flags.costs.seed}),
             record);
}

void take_built_in(const ScheduleFlags& flags, ScheduleRecord& record) {
  const auto pipeline =
      schedmp::chain_of_shape(flags.name(), flags.plan.workers.value_or(flags.plan.default_workers),
                              flags.chunks.value_or(0));
  record.schedule =
      as_asked(flags,
               schedmp::make_schedule(flags.name(), pipeline, flags.plan.micro_batches.value_or(8),
                                      record.costs, schedmp::kMostUnfolded),
               pipeline.graph);
}

void take_file(const ScheduleFlags& flags, ExaminedSchedule& examined) {
  require(!flags.chunks, "--chunks",
          "a schedule's file says which stages a worker has; leave it out");
  ScheduleFile file = read_schedule_file(flags.plan, flags.name());
  const int own = file.schedule.micro_batches;
  require(
      flags.plan.micro_batches.value_or(own) == own, "--micro-batches",
      format("a period of {} has {}, and a step of several periods is a plan's: give --model or "
             "--plan, or leave it out",
             flags.name(), plural(own, "micro-batch")));
  examined.record.schedule = std::move(file.schedule);
  examined.torch = std::move(file.torch);
  if (examined.torch && schedmp::has_transfers(*examined.torch))
    examined.written = schedmp::with_transfers(*examined.torch, examined.record.schedule);
  examined.record.transfers = examined.written.has_value();
}

schedmp::Buffering buffering_of(const ScheduleFlags& flags, const ScheduleRecord& record) {
  if (flags.buffer == "rendezvous") return {schedmp::Buffering::kRendezvous};
  if (flags.buffer == "unbounded") return {schedmp::Buffering::kUnbounded};
  if (!flags.buffer.empty()) return {std::stoi(flags.buffer)};
  const bool declared = record.found || is_built_in(flags.name());
  return {declared ? *record.smallest_buffer : 1};
}

void prove_messages(const ScheduleFlags& flags, ExaminedSchedule& examined) {
  ScheduleRecord& record = examined.record;
  const schedmp::Schedule proved = schedmp::as_it_is_proved(examined.played());
  const auto stuck = [&](schedmp::Buffering under) {
    return schedmp::unfold(proved, record.graph, {}, under).stuck;
  };
  record.smallest_buffer = schedmp::smallest_buffer(proved, record.graph);
  record.safe_under_rendezvous = stuck({schedmp::Buffering::kRendezvous}).empty();
  record.buffering = buffering_of(flags, record);
  record.problems = stuck(*record.buffering);
  if (!record.problems.empty())
    record.problems.insert(record.problems.begin(), "deadlock " + to_string(*record.buffering));
}

void prove(const ScheduleFlags& flags, ExaminedSchedule& examined) {
  if (examined.is_too_long()) return;
  ScheduleRecord& record = examined.record;
  record.problems = schedmp::check_order(record.schedule);
  if (examined.written)
    for (std::string& problem : schedmp::check_transfers(*examined.written))
      record.problems.push_back(std::move(problem));
  if (record.problems.empty()) prove_messages(flags, examined);
  record.verified = record.problems.empty();
}

}  // namespace

ExaminedSchedule examine_chain(const ScheduleFlags& flags) {
  check_flags(flags);
  ExaminedSchedule examined;
  ScheduleRecord& record = examined.record;
  record.costs = costs_of(flags.costs);
  if (flags.searches())
    take_found(flags, record);
  else if (is_built_in(flags.name()))
    take_built_in(flags, record);
  else
    take_file(flags, examined);
  record.graph = partitioner::chain_of_stages(record.schedule.stages());
  prove(flags, examined);
  if (!record.found) take_devices(flags.costs, record.schedule.workers(), record.costs);
  if (record.schedule.endless())
    show_periods(flags, examined);
  else if (record.problems.empty() && !examined.is_too_long() && record.schedule.updates_within())
    record.versions = schedmp::versions_of(record.schedule);
  return examined;
}

}  // namespace kerf::apps
