// kerf lasso: least squares with a penalty on the sum of magnitudes, by scheduled coordinate
// descent.
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "apps/data/matrix_file.h"
#include "apps/data/matrix_market.h"
#include "apps/kerf/answer.h"
#include "apps/kerf/commands.h"
#include "apps/kerf/convergence_flags.h"
#include "apps/kerf/drive.h"
#include "apps/kerf/flag_values.h"
#include "apps/kerf/run_flags.h"
#include "apps/lasso/lasso_sets.h"
#include "apps/lasso/lasso_sweeps.h"

namespace kerf::apps {

namespace {

using schedmp::Sampling;

const std::map<std::string, Sampling> kSchedules = {
    {"uniform", Sampling::kUniform},
    {"priority", Sampling::kPriority},
    {"priority+filter", Sampling::kPriorityFiltered}};

constexpr const char* kSweeps = "sweeps";

struct LassoCommand {
  LassoProblem problem;
  LassoSetOptions by_sets;
  LassoSweepOptions by_sweeps;
  CrewFlags crew_flags;
  std::optional<int> given_workers;
  int workers = 2;
  std::vector<double> y;
  std::string schedule = kSweeps;
  std::optional<int64_t> set_size;
  std::string out;
  std::string picture;
  bool json = false;
  CLI::App* command = nullptr;

  int run();

 private:
  void check();
  void check_flags_of_schedule() const;
  template <class Program>
  int solve(Program& program, ConvergenceProgress& progress) const;
};

void LassoCommand::check_flags_of_schedule() const {
  const bool sweeps = schedule == kSweeps;
  for (const char* flag : {"--set-size", "--depth", "--seed"})
    require(!sweeps || command->get_option(flag)->count() == 0, flag,
            "it is of --schedule uniform, priority and priority+filter");
  require(schedule == "priority+filter" || command->get_option("--threshold")->count() == 0,
          "--threshold", "it is of --schedule priority+filter");
  const double threshold = by_sets.sets.dependency.threshold;
  require(threshold >= 0 && threshold < 1, "--threshold",
          format("{} is not from 0 up to 1; 0.2 to 0.3 is a good one", threshold));
  require(sweeps || command->get_option("--sweeps")->count() == 0, "--sweeps",
          "it is of --schedule sweeps");
  require(by_sweeps.sweeps >= 1, "--sweeps", "it is not at least 1");
  require(by_sets.depth >= 1, "--depth", "it is not at least 1");
  require(!set_size || *set_size >= 1, "--set-size", "it is not at least 1");
}

void LassoCommand::check() {
  require(std::isfinite(problem.lambda) && problem.lambda > 0, "--lambda",
          format("{} is not above 0", problem.lambda));
  check_convergence_flags(problem, picture);
  check_flags_of_schedule();
  require(out.empty() || can_hold_file(out), "--out", format("there is no folder for {}", out));
  require(out.empty() || std::filesystem::path(out).extension() == ".mtx", "--out",
          format("{} does not end in .mtx", out));
  const MatrixSize x = matrix_size(problem.x);
  require(x.rows >= 1 && x.columns >= 1, problem.x, "it is empty");
  y = read_column(problem.y);
  require(std::ssize(y) == x.rows, problem.y,
          format("it has {}, and {} has {}", plural(std::ssize(y), "row"), problem.x, x.rows));
  const auto [divided, what] =
      schedule == kSweeps ? std::pair(x.columns, "columns") : std::pair(x.rows, "rows");
  workers = given_workers.value_or(static_cast<int>(std::min<int64_t>(2, divided)));
  require(workers >= 1 && workers <= kMostWorkers && workers <= divided, "--workers",
          format("{} is not within 1 and {}: {} are divided over them", workers,
                 std::min<int64_t>(kMostWorkers, divided), what));
  problem.rows = x.rows;
  problem.columns = x.columns;
}

template <class Program>
int LassoCommand::solve(Program& program, ConvergenceProgress& progress) const {
  const schedmp::LoopReport loop = drive(program, crew_flags, {.workers = workers}, progress).loop;
  const std::vector<double>& solution = program.solution();
  if (!out.empty()) write_matrix_market(out, solution);
  const ConvergenceRun& how = program.run();
  tell_convergence(how, problem, picture,
                   format("Lasso, lambda {:g}, by {}", problem.lambda, schedule));
  const auto nonzeros =
      std::count_if(solution.begin(), solution.end(), [](double b) { return b != 0; });
  answer(
      json,
      [&] {
        Json told = convergence_json(how, loop);
        told["nonzeros"] = nonzeros;
        return told;
      },
      [&](bool) {
        return convergence_table(how.history(), problem.columns) +
               format("\n{}, {} of {} coefficients are not 0\n",
                      convergence_line(how, loop, workers), human_count(nonzeros),
                      human_count(problem.columns));
      });
  return 0;
}

int LassoCommand::run() {
  check();
  ConvergenceProgress progress(progress_on_stderr(), problem.columns, problem.tolerance);
  const auto tell = [&](const ConvergencePoint& point) { progress.tell(point); };
  if (schedule == kSweeps) {
    static_cast<LassoProblem&>(by_sweeps) = problem;
    LassoSweeps program(by_sweeps, workers, y, tell);
    return solve(program, progress);
  }
  static_cast<LassoProblem&>(by_sets) = problem;
  by_sets.sets.sampling = kSchedules.at(schedule);
  const int64_t an_eighth = std::max<int64_t>(1, problem.columns / 8 / by_sets.depth);
  by_sets.sets.size = set_size.value_or(std::min<int64_t>(256, an_eighth));
  LassoSets program(by_sets, workers, tell);
  return solve(program, progress);
}

std::vector<std::string> schedules() {
  std::vector<std::string> names{kSweeps};
  for (const auto& [name, sampling] : kSchedules) names.push_back(name);
  return names;
}

void add_schedule_flags(CLI::App& command, LassoCommand& state) {
  schedmp::VariableSetOptions& sets = state.by_sets.sets;
  command
      .add_option("--schedule", state.schedule,
                  "sweeps: each worker has some columns and goes through them one after the other. "
                  "Or each has some rows, and a round sets some variables at once: uniform takes "
                  "every variable once a pass; priority those that changed most; priority+filter "
                  "of these no two that depend on each other")
      ->check(CLI::IsMember(schedules()))
      ->capture_default_str();
  command
      .add_option("--sweeps", state.by_sweeps.sweeps,
                  "How often a worker goes through its columns in a round of --schedule sweeps")
      ->check(whole_number<int>())
      ->capture_default_str();
  command
      .add_option("--set-size", state.set_size,
                  "Variables of a round, at most (default 256, or so few that all rounds under way "
                  "have an eighth of the variables)")
      ->check(whole_number<int64_t>())
      ->type_name("N");
  command.add_option("--depth", state.by_sets.depth, "Rounds under way")
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
  state->command = command;
  command->add_option("--x", state->problem.x, "The matrix X: Matrix Market (.mtx), or CSC (.npz)")
      ->required()
      ->type_name("FILE");
  command->add_option("--y", state->problem.y, "The column y: .mtx or .npy")
      ->required()
      ->type_name("FILE");
  command->add_option("--lambda", state->problem.lambda, "The weight of |b|_1")->required();
  add_convergence_flags(*command, state->problem, state->picture, "variables");
  add_schedule_flags(*command, *state);
  command
      ->add_option("--workers", state->given_workers,
                   "Columns, or rows, are divided over them (default 2)")
      ->check(whole_number<int>())
      ->type_name("N");
  command->add_option("--out", state->out, "Where to write b, as Matrix Market")
      ->type_name("FILE.mtx");
  add_crew_flags(*command, state->crew_flags);
  add_json_flag(*command, state->json);
  command->footer(
      "Examples:\n"
      "  kerf lasso --x X.mtx --y Y.mtx --lambda 0.5 --out BETA.mtx\n"
      "  kerf lasso --x X.npz --y y.npy --lambda 0.5 --workers 4 --schedule uniform --json");
  run_when_chosen(*command, chosen, state);
}

}  // namespace kerf::apps
