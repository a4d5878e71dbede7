// kerf report: what a run came to, from its folder alone.
#include <filesystem>
#include <memory>

#include "apps/kerf/commands.h"
#include "apps/kerf/run_folder.h"
#include "apps/kerf/save_flags.h"
#include "apps/main/answer.h"
#include "apps/report/json_fields.h"
#include "apps/report/page.h"
#include "apps/report/run_record.h"
#include "runtime/error.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

constexpr size_t kMaxRecord = size_t{1} << 30;

struct ReportCommand {
  std::string folder = "kerf-run";
  std::string page;
  bool plan = false;
  bool json = false;

  int run() const;

 private:
  void write_page(const RunFolder& files, const RunRecord& record) const;
};

// Of a run that was interrupted, or that is not over, there is none.
std::string report_of(const RunFolder& files) {
  namespace fs = std::filesystem;
  const std::string report = files.report().string();
  std::error_code ignored;
  if (!fs::is_directory(files.path(), ignored) || fs::exists(files.report(), ignored))
    return runtime::read_file(report, kMaxRecord);
  const fs::path saved = checkpoints_of(files.path());
  const std::string goes_on =
      format(": it goes on with --resume {}, and `kerf checkpoint {}` lists what it saved",
             saved.string(), files.path().string());
  throw Error(ErrorCode::kUsage,
              format("there is none, as a run writes it at its end, which none came to here{}",
                     schedmp::has_checkpoints(saved) ? goes_on : ""),
              report);
}

// A folder that cannot be written to is told all the same; a file that was asked for is missed.
void ReportCommand::write_page(const RunFolder& files, const RunRecord& record) const {
  const std::string text = report_page(record);
  if (!page.empty()) return runtime::write_file_atomic(page, text);
  try {
    runtime::write_file_atomic(files.page(), text);
  } catch (const Error& error) {
    tell_notes({format("no page was written: {}; --page FILE writes it elsewhere", error.what())});
  }
}

int ReportCommand::run() const {
  const RunFolder files(folder);
  const RunRecord record = read_run_record(report_of(files), files.report().string());
  if (!plan) write_page(files, record);
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
      "report",
      "Tells what a run came to, as at its end, from the folder that it left, and writes it "
      "as a page for browsers.");
  auto state = std::make_shared<ReportCommand>();
  command->add_option("DIR", state->folder, "What kerf train --out named")->capture_default_str();
  CLI::Option* page = command
                          ->add_option("--page", state->page,
                                       "Where the page for browsers goes (default DIR/report.html)")
                          ->type_name("FILE.html");
  command->add_flag("--plan", state->plan, "Tell the plan that it ran instead")->excludes(page);
  add_json_flag(*command, state->json);
  command->footer(
      "Examples:\n"
      "  kerf report\n"
      "  kerf report runs/7 --plan\n"
      "  kerf report runs/7 --page week.html\n"
      "  kerf report runs/7 --json");
  run_when_chosen(*command, chosen, state);
}

}  // namespace kerf::apps
