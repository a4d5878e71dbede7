// The subcommands of kerf, one file each. Each adds itself to the parser; once it was chosen, `run`
// holds what it does and returns the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace kerf::apps {

struct Chosen {
  std::function<int()> run;
};

void add_plan_command(CLI::App& app, Chosen& chosen);
void add_train_command(CLI::App& app, Chosen& chosen);
void add_eval_command(CLI::App& app, Chosen& chosen);
void add_run_command(CLI::App& app, Chosen& chosen);
void add_worker_command(CLI::App& app, Chosen& chosen);
void add_schedule_command(CLI::App& app, Chosen& chosen);
void add_devices_command(CLI::App& app, Chosen& chosen);

}  // namespace kerf::apps
