#include "apps/kerf/convergence_flags.h"

#include <cmath>

#include "apps/kerf/answer.h"
#include "apps/kerf/flag_values.h"
#include "apps/kerf/run_flags.h"
#include "apps/report/convergence_picture.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

// The last round is a check.
double last_gap(const ConvergenceRun& run) { return run.history().back().gap.value_or(HUGE_VAL); }

}  // namespace

void add_convergence_flags(CLI::App& command, ConvergenceLimits& limits, std::string& picture,
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
  command.add_option("--max-seconds", limits.most_seconds, "Stop after so long; 0: never")
      ->capture_default_str();
  command
      .add_option("--picture", picture, "Draw here how the objective and the gap fell over time")
      ->type_name("FILE.svg");
}

void check_convergence_flags(const ConvergenceLimits& limits, const std::string& picture) {
  require(limits.tolerance >= 0 && std::isfinite(limits.tolerance), "--tol",
          format("{} is not 0 or more", limits.tolerance));
  require(limits.most_seconds >= 0, "--max-seconds",
          format("{} is not 0 or more", limits.most_seconds));
  require(picture.empty() || can_hold_file(picture), "--picture",
          format("there is no folder for {}", picture));
}

void tell_convergence(const ConvergenceRun& run, const ConvergenceLimits& limits,
                      const std::string& picture, const std::string& title) {
  if (!picture.empty()) runtime::write_file_atomic(picture, draw_convergence(run.history(), title));
  if (!run.converged())
    tell_notes(
        {format("stopped before it converged: the gap is {:.2g}, more than the {:.2g} of --tol",
                last_gap(run), limits.tolerance)});
}

Json convergence_json(const ConvergenceRun& run, const schedmp::LoopReport& loop) {
  const ConvergencePoint& last = run.history().back();
  return {{"objective", last.objective},      {"gap", last_gap(run)},
          {"converged", run.converged()},     {"rounds", loop.rounds},
          {"updates", last.updates},          {"seconds", loop.seconds},
          {"history", to_json(run.history())}};
}

std::string convergence_line(const ConvergenceRun& run, const schedmp::LoopReport& loop,
                             int workers) {
  return format("{} in {} over {}: objective {:.8g}, relative gap {:.2g}",
                plural(loop.rounds, "round"), human_seconds(loop.seconds),
                plural(workers, "worker"), run.history().back().objective, last_gap(run));
}

}  // namespace kerf::apps
