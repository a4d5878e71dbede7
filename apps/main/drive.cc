#include "apps/main/drive.h"

#include <unistd.h>

#include <cstdio>

#include "apps/report/terminal.h"
#include "runtime/error.h"

namespace kerf::apps {

Progress::Options progress_on_stderr() {
  Progress::Options options;
  options.terminal = takes_escapes(STDERR_FILENO);
  options.width = [] { return terminal_width(STDERR_FILENO); };
  options.write = [](const std::string& text) {
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
  };
  return options;
}

Driven drive(schedmp::EncodedProgram& program, const CrewFlags& flags, const CrewNeeds& needs,
             ProgressBar& progress, const schedmp::LoopOptions& options) {
  Driven driven;
  const Interrupts interrupts;
  const auto crew = assemble_crew(flags, needs, interrupts);
  try {
    driven.loop = schedmp::run(program, *crew, options);
  } catch (...) {
    progress.abandon();
    throw;
  }
  progress.finish();
  driven.control = crew->counters();
  crew->stop();
  driven.crew = crew->workers();  // with what they say when they leave
  return driven;
}

}  // namespace kerf::apps
