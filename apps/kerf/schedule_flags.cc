#include "apps/kerf/schedule_flags.h"

#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "schedmp/schedules.h"

namespace kerf::apps {

namespace {

std::vector<const CLI::Option*> add_plan_flags(CLI::App& command, PlanFlags& flags) {
  std::vector<const CLI::Option*> all;
  for (CLI::Option* option : add_division_flags(command, flags)) all.push_back(option);
  for (CLI::Option* option : add_size_flags(command, flags)) all.push_back(option);
  for (CLI::Option* option : add_setting_flags(command, flags)) all.push_back(option);
  all.push_back(add_memory_flag(command, flags));
  return all;
}

std::string check_buffer(const std::string& text) {
  if (text == "rendezvous" || text == "unbounded") return {};
  std::string number = text;  // a check may change what it is given
  if (!whole_number<int>()(number).empty() || text == "0")
    return format("\"{}\" is neither rendezvous nor unbounded nor a number of messages from 1 on",
                  text);
  return {};
}

void add_own_flags(CLI::App& command, ScheduleFlags& flags) {
  command
      .add_option("--chunks", flags.chunks,
                  "Stages on each worker, of schedules that have several (default: two)")
      ->check(whole_number<int>(1, kMostStageWorkers))
      ->type_name("V");
  command
      .add_option("--in-flight", flags.in_flight,
                  "Of a schedule by name: forwards wait until their worker keeps fewer micro-"
                  "batches than this, of all its stages together (default: as many as it has)")
      ->check(whole_number<int>(1, partitioner::kMostMicroBatches))
      ->type_name("N");
  command.add_flag("--recompute", flags.recompute,
                   "Keep what a stage was sent alone, and run each forward again before its "
                   "gradients: less memory, the same answer");
  add_cost_flags(command, flags.costs);
  command
      .add_option("--buffer", flags.buffer,
                  "How many messages may be under way from a stage to another, beyond what the "
                  "receiver holds: a number, rendezvous or unbounded (default: proved with the "
                  "least that does for a built-in schedule, with 1 for a file, and times of sends "
                  "that wait for nobody)")
      ->check(check_buffer)
      ->type_name("K");
}

void add_file_flags(CLI::App& command, ScheduleFlags& flags) {
  command.add_option("--out", flags.out, "Write the schedule's text here")->type_name("FILE");
  command
      .add_option("--csv", flags.csv,
                  "Write it here as PyTorch's pipeline CSV, which can be given as NAME too")
      ->type_name("FILE");
  command
      .add_option("--svg", flags.svg,
                  "Draw it here, with what each worker keeps of micro-batches over time")
      ->type_name("FILE");
}

}  // namespace

std::vector<const CLI::Option*> add_schedule_flags(CLI::App& command, ScheduleFlags& flags) {
  command.add_option(
      "NAME", flags.plan.schedule,
      format("{}, a file, or search, which looks for the one that takes least by --costs (default: "
             "the plan's, or {})",
             fmt::join(schedmp::schedule_names(), ", "), flags.plan.default_schedule));
  command.add_option("--model", flags.plan.model, "Prove it for a cut of this model");
  add_plan_file_flag(command, flags.plan_file);
  add_count_flags(command, flags.plan, kMostStageWorkers);
  add_own_flags(command, flags);
  add_schedule_search_flags(command, flags.search);
  std::vector<const CLI::Option*> of_plan = add_plan_flags(command, flags.plan);
  add_file_flags(command, flags);
  add_json_flag(command, flags.json);
  return of_plan;
}

}  // namespace kerf::apps
