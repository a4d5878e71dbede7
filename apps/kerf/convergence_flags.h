// Flags and answers of the commands that minimise something down to a duality gap: when to stop,
// and how it went.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "apps/main/program_run.h"
#include "apps/report/convergence_run.h"
#include "runtime/json.h"

namespace kerf::apps {

// --tol and --max-passes. `variables`: what a pass looks at all of.
void add_convergence_flags(CLI::App& command, ConvergenceLimits& limits,
                           const std::string& variables);
// Throws Error{kUsage} that names the flag.
void check_convergence_flags(const ConvergenceLimits& limits);

// A note where it stopped before it converged.
void note_gap(const ConvergenceRun& run, const ConvergenceLimits& limits);

// A run down to a gap, with a bar that is full when the gap is down at the tolerance.
template <class Program>
void converge(ProgramRun& run, Program& program, int workers) {
  run.drive(program, workers, program.run().history(),
            [&](const HistoryPoint&) { return program.run().way(); });
}

// What all of them have in their JSON.
Json convergence_json(const ConvergenceRun& run);
// "12 rounds in 1.3 s over 2 workers: objective 5.1, relative gap 1e-06".
std::string convergence_line(const ConvergenceRun& run, int workers);

}  // namespace kerf::apps
