#include "apps/kerf/convergence_flags.h"

#include <cmath>

#include "apps/main/answer.h"
#include "apps/main/flag_values.h"

namespace kerf::apps {

namespace {

// The last round is a check.
double last_gap(const ConvergenceRun& run) {
  return gap_of(run.points().back()).value_or(HUGE_VAL);
}

}  // namespace

void add_convergence_flags(CLI::App& command, ConvergenceLimits& limits,
                           const std::string& variables) {
  command
      .add_option("--tol", limits.tolerance,
                  "Converged at this duality gap, relative to the objective")
      ->capture_default_str();
  command
      .add_option(
          "--max-passes", limits.most_passes,
          format("Stop after as many updates as this many times all {}; 0: never", variables))
      ->check(whole_number<int64_t>())
      ->capture_default_str();
}

void check_convergence_flags(const ConvergenceLimits& limits) {
  require(limits.tolerance >= 0 && std::isfinite(limits.tolerance), "--tol",
          format("{} is not 0 or more", limits.tolerance));
}

void note_gap(const ConvergenceRun& run, const ConvergenceLimits& limits) {
  if (!run.converged())
    tell_notes(
        {format("stopped before it converged: the gap is {:.2g}, more than the {:.2g} of --tol",
                last_gap(run), limits.tolerance)});
}

Json convergence_json(const ConvergenceRun& run) {
  const HistoryPoint& last = run.points().back();
  return {{"objective", objective_of(last)}, {"gap", last_gap(run)},
          {"converged", run.converged()},    {"rounds", last.rounds},
          {"updates", last.updates},         {"seconds", last.seconds}};
}

std::string convergence_line(const ConvergenceRun& run, int workers) {
  const HistoryPoint& last = run.points().back();
  return format("{} in {} over {}: objective {:.8g}, relative gap {:.2g}",
                plural(last.rounds, "round"), human_seconds(last.seconds),
                plural(workers, "worker"), objective_of(last), last_gap(run));
}

}  // namespace kerf::apps
