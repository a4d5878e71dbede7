#include "apps/main/drive.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "apps/main/answer.h"
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

namespace {

schedmp::RestartOptions restarts(const CrewFlags& flags, const CrewNeeds& needs,
                                 ProgressBar& progress) {
  schedmp::RestartOptions options;
  options.allowed = !flags.no_restart;
  options.waiting = tell_who_is_here(flags, needs, true);
  options.lost = [&progress](const Error& loss, int64_t round) {
    progress.abandon();
    // The lines behind the first tell what the others did.
    fmt::print(stderr, "{}\nall workers begin again before round {}\n",
               printable(first_line(loss.message())), round);
  };
  return options;
}

// Every result is in: who is lost while the workers leave takes nothing along but what it had yet
// to tell of its channels.
void let_leave(runtime::Crew& crew, const CrewFlags& flags) {
  try {
    crew.stop();
  } catch (const Error& error) {
    if (flags.no_restart || error.code() != ErrorCode::kLost) throw;
    tell_notes({format("{}; every result was in before", first_line(error.message()))});
  }
}

}  // namespace

Driven drive(schedmp::EncodedProgram& program, const CrewFlags& flags, const CrewNeeds& needs,
             ProgressBar& progress, const schedmp::LoopOptions& options) {
  Driven driven;
  schedmp::LoopOptions full = options;
  full.restarts = restarts(flags, needs, progress);
  const Interrupts interrupts;
  const auto crew = assemble_crew(flags, needs, interrupts);
  try {
    driven.loop = schedmp::run(program, *crew, full);
  } catch (const Error& error) {
    progress.abandon();
    const int left = crew->here();
    if (!flags.shrink || error.code() != ErrorCode::kTimeout || left == 0 || left == needs.workers)
      throw;
    crew->hand_over();
    throw FewerWorkers(error, left);
  } catch (...) {
    progress.abandon();
    throw;
  }
  progress.finish();
  driven.control = crew->counters();
  let_leave(*crew, flags);
  driven.crew = crew->workers();  // with what they say when they leave
  return driven;
}

}  // namespace kerf::apps
