#include "apps/kerf/plan_schedule.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "partitioner/unsound.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "schedmp/steps.h"
#include "schedmp/verify.h"

namespace kerf::apps {

namespace {

ScheduleFile parsed(const std::string& text, const std::string& file) {
  if (!schedmp::looks_like_torch_csv(text)) return {schedmp::parse_schedule(text, file), {}};
  schedmp::TorchCsv torch = schedmp::parse_torch_csv(text, file);
  const std::string name = std::filesystem::path(file).stem().string();
  return {schedmp::schedule_of(torch, name, file), std::move(torch)};
}

void require_file(const std::string& file, const std::string& where) {
  require(std::filesystem::is_regular_file(file), where,
          format("there is no schedule and no file \"{}\"; the built-in schedules are {}", file,
                 fmt::join(schedmp::schedule_names(), ", ")));
}

}  // namespace

ScheduleFile read_schedule_file(const PlanFlags& flags, const std::string& file) {
  require_file(file, flags.schedule ? "--schedule" : "the plan's schedule");
  ScheduleFile read = parsed(runtime::read_file(file, kMaxText), file);
  const auto check_count = [&](const std::optional<int>& flag, int own, const char* what) {
    require(flag.value_or(own) == own, file,
            format("schedule {} is for {} {}, not {}; leave --{} out", read.schedule.name, own,
                   what, flag.value_or(0), what));
  };
  check_count(flags.workers, read.schedule.workers(), "workers");
  if (read.schedule.endless())
    at_flag("--micro-batches", [&] {
      return schedmp::step_of(read.schedule,
                              flags.micro_batches.value_or(read.schedule.micro_batches));
    });
  else
    check_count(flags.micro_batches, read.schedule.micro_batches, "micro-batches");
  return read;
}

bool is_built_in(const std::string& schedule) {
  const auto names = schedmp::schedule_names();
  return std::find(names.begin(), names.end(), schedule) != names.end();
}

schedmp::Schedule find_schedule(const PlanFlags& flags, const std::string& name,
                                const schedmp::Pipeline& pipeline, int micro_batches) {
  return is_built_in(name)
             ? schedmp::make_step(name, pipeline, micro_batches)
             : schedmp::step_of(read_schedule_file(flags, name).schedule, micro_batches);
}

std::optional<schedmp::Schedule> schedule_in_file(const PlanFlags& flags) {
  if (!flags.schedule || is_built_in(*flags.schedule)) return std::nullopt;
  const schedmp::Schedule schedule = read_schedule_file(flags, *flags.schedule).schedule;
  return schedmp::step_of(schedule, flags.micro_batches.value_or(schedule.micro_batches));
}

std::unique_ptr<partitioner::InFlight> in_flight_of(const PlanFlags& flags,
                                                    const std::string& schedule) {
  return is_built_in(schedule)
             ? schedmp::in_flight_of(schedule)
             : schedmp::in_flight_of(read_schedule_file(flags, schedule).schedule);
}

std::unique_ptr<partitioner::InFlight> in_flight_of_plan(const PlanFlags& flags,
                                                         const std::string& schedule) {
  std::error_code absent;
  if (!is_built_in(schedule) && !std::filesystem::is_regular_file(schedule, absent)) return nullptr;
  return in_flight_of(flags, schedule);
}

void require_schedule_of(const Planned& planned) {
  if (planned.file.empty() || is_built_in(planned.plan.schedule)) return;
  require_file(planned.plan.schedule, planned.file + ": the plan's schedule");
}

PlanSchedule schedule_of(const PlanFlags& flags, const Planned& planned) {
  if (!flags.schedule) require_schedule_of(planned);
  const std::string& name = flags.schedule.value_or(planned.plan.schedule);
  const schedmp::Schedule steps =
      find_schedule(flags, name, partitioner::pipeline_of(planned.model, planned.plan),
                    planned.plan.micro_batches);
  const int loss = planned.plan.stage_of(planned.model.loss());
  PlanSchedule found{schedmp::as_it_runs(steps, loss), schedmp::why_it_drains(steps, loss)};
  if (const auto why = schedmp::why_it_cannot_run(found.schedule))
    throw Error(ErrorCode::kUsage, *why, format("schedule {}", name));
  return found;
}

PlanSchedule fitting_schedule_of(const PlanFlags& flags, const Planned& planned) {
  PlanSchedule found = schedule_of(flags, planned);
  const std::string& name = flags.schedule.value_or(planned.plan.schedule);
  if (is_built_in(name)) return found;
  std::vector<std::string> problems = schedmp::check_order(found.schedule);
  for (std::string& problem : schedmp::check_fits(found.schedule, planned.plan))
    problems.push_back(std::move(problem));
  if (!problems.empty())
    throw partitioner::Unsound(
        format("schedule {} is refuted: {}", found.schedule.name, fmt::join(problems, "; ")), name);
  return found;
}

void note_drains(const PlanSchedule& found) {
  if (found.drains)
    tell_notes({format("the pipeline drains at the end of each step: {}", *found.drains)});
}

}  // namespace kerf::apps
