// A command as a task of a launcher: srun, mpirun or torchrun starts it several times, task 0
// drives the run and listens, and each of the others is a worker of it. Where there are as many
// tasks as workers, task 0 keeps one, too, beside the scheduler.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "apps/main/command.h"
#include "apps/main/crew_flags.h"
#include "apps/main/ranks.h"

namespace kerf::apps {

// Of this process, by --launcher; empty where no launcher counts, and beside --listen or --hosts
// where nobody asked. Throws Error{kUsage} as find_rank() does.
std::optional<Rank> rank_of_process(const std::string& launcher, bool has_address);

// The flags of task 0, which listens for the others; those that were given where there are none.
// Throws Error{kUsage} where there are not as many tasks as the run has workers, or one more.
CrewFlags as_launched(const CrewFlags& flags, int workers);

// Keeps a worker where this process is a task beyond the first, and the command has crew flags.
// Returns the exit code; empty where the process is to do what its command says.
std::optional<int> serve_if_launched(const CLI::App& app);

}  // namespace kerf::apps
