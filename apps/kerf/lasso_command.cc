// kerf lasso: least squares with a penalty on the sum of magnitudes, by scheduled coordinate
// descent.
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "apps/data/matrix_file.h"
#include "apps/data/matrix_market.h"
#include "apps/kerf/answer.h"
#include "apps/kerf/commands.h"
#include "apps/kerf/drive.h"
#include "apps/kerf/flag_values.h"
#include "apps/kerf/run_flags.h"
#include "apps/lasso/lasso.h"

namespace kerf::apps {

namespace {

using schedmp::Selection;

const std::map<std::string, Selection> kSchedules = {
    {"uniform", Selection::kUniform},
    {"priority", Selection::kPriority},
    {"priority+filter", Selection::kPriorityFiltered}};

struct LassoCommand {
  LassoOptions options;
  CrewFlags crew_flags;
  int workers = 2;
  std::string schedule = "priority+filter";
  std::string out;
  bool json = false;

  int run();

 private:
  void check();
  void keep(const std::vector<double>& solution) const;
};

void LassoCommand::check() {
  const auto positive = [](const char* flag, double value) {
    require(std::isfinite(value) && value > 0, flag, format("{} is not above 0", value));
  };
  positive("--lambda", options.lambda);
  require(options.tolerance >= 0 && std::isfinite(options.tolerance), "--tol",
          format("{} is not 0 or more", options.tolerance));
  require(options.most_seconds >= 0, "--max-seconds",
          format("{} is not 0 or more", options.most_seconds));
  require(options.depth >= 1, "--depth", "it is not at least 1");
  require(options.sets.size >= 1, "--set-size", "it is not at least 1");
  const MatrixSize x = matrix_size(options.x), y = matrix_size(options.y);
  require(x.rows >= 1 && x.columns >= 1, options.x, "it is empty");
  require(y.columns == 1 && y.rows == x.rows, options.y,
          format("it is {} x {}; a column of {} rows is needed, as many as {} has", y.rows,
                 y.columns, x.rows, options.x));
  require(workers >= 1 && workers <= kMostWorkers && workers <= x.rows, "--workers",
          format("{} is not within 1 and {}: rows are divided over them", workers,
                 std::min<int64_t>(kMostWorkers, x.rows)));
  options.rows = x.rows;
  options.columns = x.columns;
  options.sets.selection = kSchedules.at(schedule);
}

void LassoCommand::keep(const std::vector<double>& solution) const {
  if (!out.empty()) write_matrix_market(out, solution);
}

int LassoCommand::run() {
  check();
  ConvergenceProgress progress(progress_on_stderr(), options.columns, options.tolerance);
  Lasso program(options, workers, [&](const ConvergencePoint& point) { progress.tell(point); });
  const schedmp::LoopReport loop = drive(program, crew_flags, {.workers = workers}, progress).loop;
  keep(program.solution());
  const ConvergencePoint& last = program.history().back();
  const auto nonzeros = std::count_if(program.solution().begin(), program.solution().end(),
                                      [](double b) { return b != 0; });
  if (!program.converged())
    tell_notes(
        {format("stopped before it converged: the gap is {:.2g}, more than the {:.2g} of "
                "--tol",
                last.gap.value_or(HUGE_VAL), options.tolerance)});
  answer(
      json,
      [&] {
        return Json{{"objective", last.objective},
                    {"gap", last.gap ? Json(*last.gap) : Json()},
                    {"converged", program.converged()},
                    {"nonzeros", nonzeros},
                    {"rounds", loop.rounds},
                    {"updates", last.updates},
                    {"seconds", loop.seconds},
                    {"history", to_json(program.history())}};
      },
      [&](bool) {
        return convergence_table(program.history(), options.columns) +
               format(
                   "\n{} in {} over {}: objective {:.8g}, relative gap {:.2g}, {} of {} "
                   "coefficients are not 0\n",
                   plural(loop.rounds, "round"), human_seconds(loop.seconds),
                   plural(workers, "worker"), last.objective, last.gap.value_or(HUGE_VAL),
                   human_count(nonzeros), human_count(options.columns));
      });
  return 0;
}

void add_schedule_flags(CLI::App& command, LassoCommand& state) {
  schedmp::VariableSetOptions& sets = state.options.sets;
  command
      .add_option("--schedule", state.schedule,
                  "uniform: every variable once a pass; priority: those that changed most; "
                  "priority+filter: of these no two that depend on each other at once")
      ->check(CLI::IsMember(kSchedules))
      ->capture_default_str();
  command.add_option("--set-size", sets.size, "Variables of a round, at most")
      ->check(whole_number<int64_t>())
      ->capture_default_str();
  command.add_option("--depth", state.options.depth, "Rounds under way")
      ->check(whole_number<int>())
      ->capture_default_str();
  command
      .add_option("--threshold", sets.dependency.threshold,
                  "Variables depend on each other above this correlation")
      ->capture_default_str();
  add_seed_flag(command, sets.seed, "Of the order of variables");
}

}  // namespace

void add_lasso_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "lasso", "Minimises 1/2 |y - X b|^2 + lambda |b|_1 by scheduled coordinate descent.");
  auto state = std::make_shared<LassoCommand>();
  command->add_option("--x", state->options.x, "The matrix X: Matrix Market (.mtx), or CSC (.npz)")
      ->required()
      ->type_name("FILE");
  command->add_option("--y", state->options.y, "The column y: .mtx or .npy")
      ->required()
      ->type_name("FILE");
  command->add_option("--lambda", state->options.lambda, "The weight of |b|_1")->required();
  command
      ->add_option("--tol", state->options.tolerance,
                   "Converged at this duality gap, relative to the objective")
      ->capture_default_str();
  command
      ->add_option("--max-passes", state->options.most_passes,
                   "Stop after as many updates as this many times all variables; 0: never")
      ->check(whole_number<int64_t>())
      ->capture_default_str();
  command->add_option("--max-seconds", state->options.most_seconds, "Stop after so long; 0: never")
      ->capture_default_str();
  add_schedule_flags(*command, *state);
  command->add_option("--workers", state->workers, "Rows are divided over them")
      ->check(whole_number<int>())
      ->capture_default_str();
  command->add_option("--out", state->out, "Where to write b, as Matrix Market")
      ->type_name("FILE.mtx");
  add_crew_flags(*command, state->crew_flags);
  add_json_flag(*command, state->json);
  command->footer(
      "Each worker holds some rows of X. A round computes the minimum along each variable of a "
      "set; up to --depth rounds overlap.\n\n"
      "Examples:\n"
      "  kerf lasso --x X.mtx --y Y.mtx --lambda 0.5 --out BETA.mtx\n"
      "  kerf lasso --x X.npz --y y.npy --lambda 0.5 --workers 4 --schedule uniform --json");
  run_when_chosen(*command, chosen, state);
}

}  // namespace kerf::apps
