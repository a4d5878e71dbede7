#include "apps/kerf/examined_schedule.h"

#include <algorithm>
#include <utility>

#include "apps/kerf/plan_schedule.h"
#include "apps/main/flag_values.h"
#include "apps/report/table.h"
#include "schedmp/kept.h"
#include "schedmp/period.h"
#include "schedmp/schedules.h"
#include "schedmp/schedules/capped.h"
#include "schedmp/verify.h"
#include "schedmp/versions.h"

namespace kerf::apps {

namespace {

constexpr int64_t kMostVerified = 2'000'000;  // actions
constexpr int64_t kMostKept = 100'000;        // actions of which what is kept is told over time

void simulate_kept(ExaminedSchedule& examined) {
  ScheduleRecord& record = examined.record;
  if (!record.schedule.trains()) return;
  const bool short_enough = record.schedule.actions() <= kMostKept;
  for (size_t worker = 0; worker < record.unfolded.rows.size(); ++worker) {
    std::vector<schedmp::Kept> kept = schedmp::kept_over_time(
        record.schedule, record.unfolded, record.costs, static_cast<int>(worker));
    record.kept_peaks.push_back(schedmp::peak_of(kept));
    if (short_enough) record.kept.push_back(std::move(kept));
  }
}

void simulate(const ScheduleFlags& flags, ExaminedSchedule& examined) {
  ScheduleRecord& record = examined.record;
  require(
      record.costs.jitter == 0 || !examined.is_too_long(), "--jitter",
      format("a schedule of more than {} actions is unfolded once, not 100 times", kMostVerified));
  check_stages(flags.costs, record.costs, record.schedule.stages());
  check_message_bytes(flags.costs, record.costs);
  // Rows that lack that much are refuted, and need no times.
  if (int64_t{record.schedule.stages()} * record.schedule.micro_batches > record.schedule.actions())
    return;
  const schedmp::Buffering under =
      flags.buffer.empty() ? schedmp::Buffering{} : record.buffering.value_or(schedmp::Buffering{});
  record.unfolded =
      schedmp::unfold(examined.played(), record.graph, record.costs.without_jitter(), under);
  if (examined.written) record.unfolded = schedmp::computed_of(*examined.written, record.unfolded);
  record.bubble = schedmp::bubble(record.schedule, record.unfolded);
  simulate_kept(examined);
  if (!record.unfolded.stuck.empty()) return;
  record.idle = schedmp::idle_of(record.schedule, record.graph, record.unfolded);
  if (record.costs.jitter > 0)
    record.makespan_p95 = schedmp::makespan_of_95(examined.played(), record.graph, record.costs);
}

}  // namespace

bool ExaminedSchedule::is_too_long() const {
  const int64_t periods =
      all().endless() ? schedmp::proving_periods(all()) + schedmp::kMeanPeriods : 1;
  return all().actions() > kMostVerified / periods;
}

void keep_found(schedmp::FoundSchedule found, ScheduleRecord& record) {
  record.found = std::move(found);
  record.schedule = record.found->schedule;
  const schedmp::Schedule built_in =
      schedmp::one_f_one_b({record.schedule.groups, record.graph}, record.schedule.micro_batches);
  schedmp::ActionCosts searched = record.costs.without_jitter();
  searched.links = {};
  record.of_1f1b = schedmp::bubble(built_in, record.graph, searched).makespan;
}

void show_periods(const ScheduleFlags& flags, ExaminedSchedule& examined) {
  ScheduleRecord& record = examined.record;
  record.endless = std::exchange(record.schedule, {});
  const auto shown = [&](int periods) { return schedmp::unrolled(*record.endless, periods); };
  const auto updates = [](const schedmp::Action& action) {
    return action.kind == schedmp::ActionKind::kUpdate;
  };
  const std::vector<schedmp::Action>& row = record.endless->rows[0];
  record.schedule = shown(std::count_if(row.begin(), row.end(), updates) > 1 ? 1 : 2);
  if (!record.problems.empty() || examined.is_too_long()) return;
  record.versions = schedmp::versions_of(*record.endless);
  check_message_bytes(flags.costs, record.costs);
  record.period = schedmp::period_of(*record.endless, record.graph, record.costs);
}

schedmp::Schedule as_asked(const ScheduleFlags& flags, schedmp::Schedule schedule,
                           const partitioner::StageGraph& graph) {
  if (flags.in_flight)
    schedule = at_flag("--in-flight", [&] {
      return schedmp::capped(schedule, {schedule.groups, graph}, *flags.in_flight);
    });
  return flags.recompute ? schedmp::recomputed(schedule) : schedule;
}

ExaminedSchedule examine(const ScheduleFlags& flags) {
  require(!flags.in_flight || !flags.searches(), "--in-flight",
          "of a search it is --keep that says so");
  require(!flags.in_flight || is_built_in(flags.name()), "--in-flight",
          "a schedule's file says what is in flight; leave it out");
  require(!flags.recompute || is_built_in(flags.name()), "--recompute",
          "it is for a schedule by name; a file says itself what is made again, by RECOMPUTE");
  ExaminedSchedule examined = flags.with_plan ? examine_on_plan(flags) : examine_chain(flags);
  simulate(flags, examined);
  examined.record.peak_activations = schedmp::peak_activations(examined.record.schedule);
  return examined;
}

}  // namespace kerf::apps
