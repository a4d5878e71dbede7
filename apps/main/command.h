// The commands of an executable. Each adds itself to the parser; once it was chosen, `run` holds
// what it does and returns the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "schedmp/program.h"

namespace kerf::apps {

struct Chosen {
  int argc = 0;  // of the process, for the title that ps shows
  char** argv = nullptr;
  const schedmp::ProgramFactories& programs;  // that its workers can run
  std::function<int()> run = {};
};
using AddCommand = std::function<void(CLI::App& app, Chosen& chosen)>;

// `state`, filled in by the parser, does the work.
template <class State>
void run_when_chosen(CLI::App& command, Chosen& chosen, const std::shared_ptr<State>& state) {
  command.callback([&chosen, state] { chosen.run = [state] { return state->run(); }; });
}

// One red line on the standard error output, "kerf: error: ..."; returns the exit code.
int complain(const std::string& message, int code);

// Of an executable whose workers can run such programs: joins a run that began with --listen.
void add_worker_command(CLI::App& app, Chosen& chosen);

}  // namespace kerf::apps
