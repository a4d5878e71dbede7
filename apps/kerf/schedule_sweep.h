// kerf schedule sweep: several schedules at several sizes under several costs, as a table, a plot
// or data.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "apps/kerf/commands.h"

namespace kerf::apps {

void add_schedule_sweep_command(CLI::App& schedule_command, Chosen& chosen);

// "2,4,8", "4:16" (by one), "4:16:4" (by four), "4:64:*2" (doubling), or several of them with
// commas: whole numbers from 1 to `most`, each once, as they come. Throws Error{kUsage} at the
// flag.
std::vector<int> numbers_within(const std::string& text, const std::string& flag, int most);

}  // namespace kerf::apps
