// kerf lasso: least squares with a penalty on the sum of magnitudes, by scheduled coordinate
// descent.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "apps/data/matrix_file.h"
#include "apps/data/matrix_market.h"
#include "apps/kerf/commands.h"
#include "apps/kerf/convergence_flags.h"
#include "apps/lasso/lasso_sets.h"
#include "apps/lasso/lasso_sweeps.h"
#include "apps/main/flag_values.h"
#include "apps/main/program_command.h"

namespace kerf::apps {

namespace {

using schedmp::Sampling;

const std::map<std::string, Sampling> kSchedules = {
    {"uniform", Sampling::kUniform},
    {"priority", Sampling::kPriority},
    {"priority+filter", Sampling::kPriorityFiltered}};

constexpr const char* kSweeps = "sweeps";

class LassoCommand : public ProgramCommand {
 public:
  std::string name() const override { return "lasso"; }
  std::string about() const override {
    return "Minimises 1/2 |y - X b|^2 + lambda |b|_1 by scheduled coordinate descent.";
  }
  std::string divided() const override { return "Columns, or rows,"; }
  std::string examples() const override {
    return "Examples:\n"
           "  kerf lasso --x X.mtx --y Y.mtx --lambda 0.5 --out BETA.mtx\n"
           "  kerf lasso --x X.npz --y y.npy --lambda 0.5 --workers 4 --schedule uniform --json";
  }
  void add_flags(CLI::App& command) override;
  void run(ProgramRun& run) override;

 private:
  void add_schedule_flags(CLI::App& command);
  void check();
  void check_flags_of_schedule() const;
  template <class Program>
  void solve(ProgramRun& run, Program&& program, int workers) const;

  LassoProblem problem_;
  LassoSetOptions by_sets_;
  LassoSweepOptions by_sweeps_;
  std::vector<double> y_;
  std::string schedule_ = kSweeps;
  std::optional<int64_t> set_size_;
  std::string out_;
  CLI::App* command_ = nullptr;
};

void LassoCommand::check_flags_of_schedule() const {
  const bool sweeps = schedule_ == kSweeps;
  for (const char* flag : {"--set-size", "--depth", "--seed"})
    require(!sweeps || command_->get_option(flag)->count() == 0, flag,
            "it is of --schedule uniform, priority and priority+filter");
  require(schedule_ == "priority+filter" || command_->get_option("--threshold")->count() == 0,
          "--threshold", "it is of --schedule priority+filter");
  const double threshold = by_sets_.sets.dependency.threshold;
  require(threshold >= 0 && threshold < 1, "--threshold",
          format("{} is not from 0 up to 1; 0.2 to 0.3 is a good one", threshold));
  require(sweeps || command_->get_option("--sweeps")->count() == 0, "--sweeps",
          "it is of --schedule sweeps");
}

void LassoCommand::check() {
  require(std::isfinite(problem_.lambda) && problem_.lambda > 0, "--lambda",
          format("{} is not above 0", problem_.lambda));
  check_convergence_flags(problem_);
  check_flags_of_schedule();
  require(out_.empty() || can_hold_file(out_), "--out", format("there is no folder for {}", out_));
  require(out_.empty() || std::filesystem::path(out_).extension() == ".mtx", "--out",
          format("{} does not end in .mtx", out_));
  const MatrixSize x = matrix_size(problem_.x);
  require(x.rows >= 1 && x.columns >= 1, problem_.x, "it is empty");
  y_ = read_column(problem_.y);
  require(std::ssize(y_) == x.rows, problem_.y,
          format("it has {}, and {} has {}", plural(std::ssize(y_), "row"), problem_.x, x.rows));
  problem_.rows = x.rows;
  problem_.columns = x.columns;
}

template <class Program>
void LassoCommand::solve(ProgramRun& run, Program&& program, int workers) const {
  converge(run, program, workers);
  const std::vector<double>& solution = program.solution();
  if (!out_.empty()) write_matrix_market(out_, solution);
  note_gap(program.run(), problem_);
  const auto nonzeros =
      std::count_if(solution.begin(), solution.end(), [](double b) { return b != 0; });
  Json told = convergence_json(program.run());
  told["nonzeros"] = nonzeros;
  run.answer(program.run().history(),
             format("Lasso, lambda {:g}, by {}", problem_.lambda, schedule_), told,
             format("{}, {} of {} coefficients are not 0", convergence_line(program.run(), workers),
                    human_count(nonzeros), human_count(problem_.columns)));
}

void LassoCommand::run(ProgramRun& run) {
  check();
  problem_.most_seconds = run.most_seconds();
  if (schedule_ == kSweeps) {
    const int workers = run.workers(problem_.columns, "columns");
    static_cast<LassoProblem&>(by_sweeps_) = problem_;
    return solve(run, LassoSweeps(by_sweeps_, workers, y_), workers);
  }
  const int workers = run.workers(problem_.rows, "rows");
  static_cast<LassoProblem&>(by_sets_) = problem_;
  by_sets_.sets.sampling = kSchedules.at(schedule_);
  const int64_t an_eighth = std::max<int64_t>(1, problem_.columns / 8 / by_sets_.depth);
  by_sets_.sets.size = set_size_.value_or(std::min<int64_t>(256, an_eighth));
  solve(run, LassoSets(by_sets_, workers), workers);
}

std::vector<std::string> schedules() {
  std::vector<std::string> names{kSweeps};
  for (const auto& [name, sampling] : kSchedules) names.push_back(name);
  return names;
}

void LassoCommand::add_schedule_flags(CLI::App& command) {
  schedmp::VariableSetOptions& sets = by_sets_.sets;
  command
      .add_option("--schedule", schedule_,
                  "sweeps: each worker has some columns and goes through them one after the other. "
                  "Or each has some rows, and a round sets some variables at once: uniform takes "
                  "every variable once a pass; priority those that changed most; priority+filter "
                  "of these no two that depend on each other")
      ->check(CLI::IsMember(schedules()))
      ->capture_default_str();
  command
      .add_option("--sweeps", by_sweeps_.sweeps,
                  "How often a worker goes through its columns in a round of --schedule sweeps")
      ->check(whole_number<int>(1))
      ->capture_default_str();
  command
      .add_option("--set-size", set_size_,
                  "Variables of a round, at most (default 256, or so few that all rounds under way "
                  "have an eighth of the variables)")
      ->check(whole_number<int64_t>(1))
      ->type_name("N");
  command.add_option("--depth", by_sets_.depth, "Rounds under way")
      ->check(whole_number<int>(1))
      ->capture_default_str();
  command
      .add_option("--threshold", sets.dependency.threshold,
                  "Variables depend on each other above this correlation")
      ->capture_default_str();
  add_seed_flag(command, sets.seed, "Of the order of variables");
}

void LassoCommand::add_flags(CLI::App& command) {
  command_ = &command;
  command
      .add_option("--x", problem_.x,
                  "The matrix X: Matrix Market (.mtx), CSC (.npz), or a table (.csv)")
      ->required()
      ->type_name("FILE");
  command.add_option("--y", problem_.y, "The column y: .mtx, .npy or .csv")
      ->required()
      ->type_name("FILE");
  command.add_option("--lambda", problem_.lambda, "The weight of |b|_1")->required();
  add_convergence_flags(command, problem_, "variables");
  add_schedule_flags(command);
  command.add_option("--out", out_, "Where to write b, as Matrix Market")->type_name("FILE.mtx");
}

}  // namespace

void add_lasso_command(CLI::App& app, Chosen& chosen) {
  add_program_command(std::make_shared<LassoCommand>(), app, chosen);
}

}  // namespace kerf::apps
