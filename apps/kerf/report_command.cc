// kerf report: what a run came to, from its folder alone.
#include <filesystem>
#include <memory>

#include "apps/kerf/answer.h"
#include "apps/kerf/commands.h"
#include "apps/kerf/run_folder.h"
#include "apps/report/json_fields.h"
#include "apps/report/run_record.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

constexpr size_t kMaxRecord = size_t{1} << 30;

struct ReportCommand {
  std::string folder = "kerf-run";
  bool plan = false;
  bool json = false;

  int run() const;
};

int ReportCommand::run() const {
  const RunFolder files(folder);
  const std::string origin = files.report().string();
  const RunRecord record = read_run_record(runtime::read_file(origin, kMaxRecord), origin);
  answer(
      json,
      [&] {
        if (!plan) return to_json(record);
        Json told = to_json(record.plan);
        if (!record.asked.empty()) told["asked"] = asked_json(record.asked);
        return told;
      },
      [&](bool colour) {
        return plan ? asked_text(record.asked) + plan_text(record.plan, colour)
                    : run_text(record, colour) + "\n" + files.text();
      });
  return 0;
}

}  // namespace

void add_report_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "report", "Tells what a run came to, as at its end, from the folder that it left.");
  auto state = std::make_shared<ReportCommand>();
  command->add_option("DIR", state->folder, "What kerf train --out named")->capture_default_str();
  command->add_flag("--plan", state->plan, "Tell the plan that it ran instead");
  add_json_flag(*command, state->json);
  command->footer(
      "Examples:\n"
      "  kerf report\n"
      "  kerf report runs/7 --plan\n"
      "  kerf report runs/7 --json");
  run_when_chosen(*command, chosen, state);
}

}  // namespace kerf::apps
