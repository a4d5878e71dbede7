// The subcommands of kerf, one file each. Each adds itself to the parser; once it was chosen, `run`
// holds what it does and returns the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

namespace kerf::apps {

struct Chosen {
  int argc = 0;  // of the process, for the title that ps shows
  char** argv = nullptr;
  std::function<int()> run;
};

// `state`, filled in by the parser, does the work.
template <class State>
void run_when_chosen(CLI::App& command, Chosen& chosen, const std::shared_ptr<State>& state) {
  command.callback([&chosen, state] { chosen.run = [state] { return state->run(); }; });
}

// One red line on the standard error output, "kerf: error: ..."; returns the exit code.
int complain(const std::string& message, int code);

void add_plan_command(CLI::App& app, Chosen& chosen);
void add_compare_command(CLI::App& app, Chosen& chosen);
void add_profile_command(CLI::App& app, Chosen& chosen);
void add_train_command(CLI::App& app, Chosen& chosen);
void add_eval_command(CLI::App& app, Chosen& chosen);
void add_export_command(CLI::App& app, Chosen& chosen);
void add_infer_command(CLI::App& app, Chosen& chosen);
void add_lasso_command(CLI::App& app, Chosen& chosen);
void add_mf_command(CLI::App& app, Chosen& chosen);
void add_run_command(CLI::App& app, Chosen& chosen);
void add_report_command(CLI::App& app, Chosen& chosen);
void add_worker_command(CLI::App& app, Chosen& chosen);
void add_schedule_command(CLI::App& app, Chosen& chosen);
void add_bench_command(CLI::App& app, Chosen& chosen);
void add_devices_command(CLI::App& app, Chosen& chosen);
void add_data_command(CLI::App& app, Chosen& chosen);
void add_models_command(CLI::App& app, Chosen& chosen);

}  // namespace kerf::apps
