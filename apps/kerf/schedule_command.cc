// kerf schedule: look at a schedule, prove it, simulate it, keep it as text.
#include <memory>

#include "apps/kerf/commands.h"
#include "apps/kerf/examined_schedule.h"
#include "apps/kerf/schedule_flags.h"
#include "apps/kerf/schedule_sweep.h"
#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "apps/report/schedule_picture.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "schedmp/torch_csv.h"

namespace kerf::apps {

namespace {

constexpr int kRefuted = 1;              // exit code
constexpr int64_t kMostDrawn = 100'000;  // actions

// Those that were asked for; what they are, a line each.
std::string write_files(const ScheduleFlags& flags, const ExaminedSchedule& examined) {
  std::string written;
  const auto write = [&](const std::string& file, const char* what, const auto& text) {
    if (file.empty()) return;
    runtime::write_file_atomic(file, text());
    written += format("{}{:<9} {}\n", written.empty() ? "\n" : "", what, file);
  };
  const ScheduleRecord& record = examined.record;
  require(flags.out.empty() || record.schedule.actions() <= schedmp::kMostActions, "--out",
          format("a file of more than {} actions could not be read", schedmp::kMostActions));
  require(flags.out.empty() || !examined.all().any_weight_order, "--out",
          "its gradients of weights do not go up by micro-batch, and in Kerf's own text they do; "
          "the file that it is in can be given as it is");
  require(flags.svg.empty() || record.schedule.actions() <= kMostDrawn, "--svg",
          format("a picture of more than {} actions could not be looked at", kMostDrawn));
  write(flags.out, "schedule", [&] { return schedmp::write_schedule(examined.all()); });
  write(flags.csv, "csv", [&] {
    return schedmp::write_torch_csv(examined.torch ? *examined.torch
                                                   : schedmp::torch_csv_of(examined.all()));
  });
  write(flags.svg, "picture",
        [&] { return draw_schedule(record.schedule, record.unfolded, record.kept); });
  return written;
}

int run_schedule(const ScheduleFlags& flags) {
  const ExaminedSchedule examined = examine(flags);
  const ScheduleRecord& record = examined.record;
  const std::string written = write_files(flags, examined);
  answer(
      flags.json, [&] { return to_json(record); },
      [&](bool colour) { return text_of(record, colour) + written; });
  if (record.problems.empty()) return 0;
  // The answer is no; whoever asked did nothing wrong.
  return complain(
      format("schedule {}: refuted: {}", flags.plan.schedule.value_or(record.schedule.name),
             fmt::join(record.problems, "; ")),
      kRefuted);
}

}  // namespace

void add_schedule_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "schedule",
      "Draws a pipeline schedule, proves or refutes it, and says how idle it leaves the workers.");
  auto flags = std::make_shared<ScheduleFlags>();
  flags->plan.default_workers = 4;
  const std::vector<const CLI::Option*> of_plan = add_schedule_flags(*command, *flags);
  command->footer(
      "Examples:\n"
      "  kerf schedule 1f1b --workers 4 --micro-batches 8\n"
      "  kerf schedule zbv --workers 4 --micro-batches 8 --costs 1,1.3,0.7\n"
      "  kerf schedule 1f1b --link 0.1,1e6 --message-bytes 2e5\n"
      "  kerf schedule 1f1b --model lenet5 --costs plan --svg step.svg\n"
      "  kerf schedule search --workers 4 --micro-batches 8 --costs 1,1.3,0.7 --out found.txt\n"
      "  kerf schedule gpipe --workers 2 --micro-batches 4 --out mine.txt   edit it, then\n"
      "  kerf schedule mine.txt --buffer rendezvous\n"
      "  kerf schedule mine.txt --model lenet5 --workers 2\n"
      "  kerf schedule sweep 1f1b,zbv --micro-batches 4:64:*2               several at once");
  add_schedule_sweep_command(*command, chosen);
  command->callback([&chosen, command, flags, of_plan] {
    if (!command->get_subcommands().empty()) return;  // it has its own
    flags->with_plan =
        command->get_option("--model")->count() + command->get_option("--plan")->count() > 0;
    for (const CLI::Option* option : of_plan)
      if (option->count() > 0) flags->needs_plan = option->get_name();
    chosen.run = [flags] { return run_schedule(*flags); };
  });
}

}  // namespace kerf::apps
