// kerf mf: a matrix of ratings as a product of two thin ones, by block rotation.
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
#include "apps/mf/mf.h"
#include "apps/report/table.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

const std::map<std::string, MfAlgorithm> kAlgorithms = {{"sgd", MfAlgorithm::kSgd},
                                                        {"ccd", MfAlgorithm::kCcd}};

constexpr int kMostRank = 4096;
constexpr int kMostBlocksPerWorker = 64;

struct MfCommand {
  MfOptions options;
  CrewFlags crew_flags;
  int workers = 2;
  std::string algorithm = "sgd";
  std::string out;
  bool json = false;
  CLI::App* command = nullptr;

  int run();

 private:
  void check_numbers() const;
  void check_files();
  void write(const Mf& program) const;
  void tell(const Mf& program, const schedmp::LoopReport& loop) const;
};

void MfCommand::check_numbers() const {
  const auto finite = [](double number, const char* flag, bool above) {
    require(std::isfinite(number) && (above ? number > 0 : number >= 0), flag,
            format("{} is not {}", number, above ? "above 0" : "0 or more"));
  };
  finite(options.lambda, "--lambda", false);
  finite(options.step, "--step", true);
  finite(options.decay, "--decay", false);
  finite(options.tolerance, "--tol", false);
  finite(options.most_seconds, "--max-seconds", false);
  check_range(std::optional(options.rank), "--rank", kMostRank);
  check_range(std::optional(options.blocks_per_worker), "--blocks", kMostBlocksPerWorker);
  for (const char* flag : {"--step", "--decay"})
    require(algorithm == "sgd" || command->get_option(flag)->count() == 0, flag,
            "it is of --algorithm sgd");
  require(options.iterations >= 1, "--iterations", "it is not at least 1");
}

void MfCommand::check_files() {
  const MatrixSize ratings = matrix_size(options.ratings);
  require(ratings.entries >= 1, options.ratings, "it has no ratings");
  if (!options.test.empty()) {
    const MatrixSize test = matrix_size(options.test);
    require(test.rows == ratings.rows && test.columns == ratings.columns, options.test,
            format("it is {} x {}; {} is {} x {}", test.rows, test.columns, options.ratings,
                   ratings.rows, ratings.columns));
    require(test.entries >= 1, options.test, "it has no ratings");
  }
  const int64_t most =
      std::min<int64_t>({kMostWorkers, ratings.rows, ratings.columns / options.blocks_per_worker});
  require(workers >= 1 && workers <= most, "--workers",
          format("{} is not within 1 and {}: {} users and {} items in {} a worker are divided "
                 "over them",
                 workers, most, ratings.rows, ratings.columns,
                 plural(options.blocks_per_worker, "block")));
  options.users = ratings.rows;
  options.items = ratings.columns;
  if (out.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(out, failed);
  require(std::filesystem::is_directory(out), out,
          format("this is no folder and cannot become one: {}", failed.message()));
}

void MfCommand::write(const Mf& program) const {
  const std::filesystem::path folder = out;
  write_matrix_market(folder / "users.mtx", program.users(), options.rank);
  write_matrix_market(folder / "items.mtx", program.items(), options.rank);
  runtime::write_file_atomic(
      folder / "model.txt",
      format("kerf mf: rating = mean + row of users.mtx . row of items.mtx\nmean {}\nrank {}\n"
             "users {}\nitems {}\nlambda {}\n",
             program.mean(), options.rank, options.users, options.items, options.lambda));
}

void MfCommand::tell(const Mf& program, const schedmp::LoopReport& loop) const {
  const FitPoint& last = program.history().back();
  answer(
      json,
      [&] {
        return Json{{"objective", last.objective},
                    {"train_rmse", last.train_rmse},
                    {"test_rmse", last.test_rmse ? Json(*last.test_rmse) : Json()},
                    {"mean", program.mean()},
                    {"ratings", program.ratings()},
                    {"converged", program.converged()},
                    {"iterations", last.iterations},
                    {"rounds", loop.rounds},
                    {"updates", last.updates},
                    {"seconds", last.seconds},
                    {"history", to_json(program.history())}};
      },
      [&](bool) {
        const std::string tested =
            last.test_rmse ? format(", test RMSE {:.5f}", *last.test_rmse) : std::string();
        return fit_table(program.history()) +
               format("\n{} in {} over {}: objective {:.8g}, train RMSE {:.5f}{}\n",
                      plural(last.iterations, "iteration"), human_seconds(last.seconds),
                      plural(workers, "worker"), last.objective, last.train_rmse, tested);
      });
}

int MfCommand::run() {
  check_numbers();
  check_files();
  options.algorithm = kAlgorithms.at(algorithm);
  FitProgress progress(progress_on_stderr(), options.iterations);
  Mf program(options, workers, [&](const FitPoint& point) { progress.tell(point); });
  const schedmp::LoopReport loop = drive(program, crew_flags, {.workers = workers}, progress).loop;
  if (!out.empty()) write(program);
  tell(program, loop);
  return 0;
}

void add_fit_flags(CLI::App& command, MfOptions& options) {
  command.add_option("--rank", options.rank, "Numbers of a row of p and of q")
      ->check(whole_number<int>())
      ->capture_default_str();
  command
      .add_option("--lambda", options.lambda,
                  "The weight of |p|^2 + |q|^2, for each rating, beside its squared error")
      ->capture_default_str();
  command
      .add_option("--step", options.step,
                  "The step size of the first iteration, of ratings divided by their standard "
                  "deviation")
      ->capture_default_str();
  command
      .add_option("--decay", options.decay,
                  "Iteration t, from 0, has steps of step / (1 + decay t^1.5)")
      ->capture_default_str();
  command.add_option("--iterations", options.iterations, "Stop after so many, at the latest")
      ->check(whole_number<int64_t>())
      ->capture_default_str();
  command
      .add_option("--tol", options.tolerance,
                  "Converged when an iteration makes the objective smaller by less than this part "
                  "of it; 0: never")
      ->capture_default_str();
  command.add_option("--max-seconds", options.most_seconds, "Stop after so long; 0: never")
      ->capture_default_str();
}

}  // namespace

void add_mf_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "mf",
      "Matrix factorisation: minimises the sum over ratings r of item i by user u of (r - m - p_u "
      ". "
      "q_i)^2 + lambda (|p_u|^2 + |q_i|^2), m the mean rating, over blocks of items that rotate.");
  auto state = std::make_shared<MfCommand>();
  MfOptions& options = state->options;
  state->command = command;
  command
      ->add_option("--ratings", options.ratings,
                   "Ratings: Matrix Market coordinates (.mtx), or CSC (.npz); users are rows, "
                   "items columns")
      ->required()
      ->type_name("FILE");
  command->add_option("--test", options.test, "Ratings of the same users and items, to test on")
      ->type_name("FILE");
  add_fit_flags(*command, options);
  command
      ->add_option("--algorithm", state->algorithm,
                   "sgd: stochastic gradient descent. ccd: CCD++, the minimum along each number "
                   "of the rows in turn, without step sizes")
      ->check(CLI::IsMember(kAlgorithms))
      ->capture_default_str();
  command->add_option("--blocks", options.blocks_per_worker, "Blocks of items for each worker")
      ->check(whole_number<int>())
      ->capture_default_str();
  add_seed_flag(*command, options.seed, "Of the first rows and of the order of ratings");
  command->add_option("--workers", state->workers, "Users are divided over them")
      ->check(whole_number<int>())
      ->capture_default_str();
  command
      ->add_option("--out", state->out,
                   "A folder for users.mtx and items.mtx, a row each, and model.txt with the mean")
      ->type_name("FOLDER");
  add_crew_flags(*command, state->crew_flags);
  add_json_flag(*command, state->json);
  command->footer(
      "Examples:\n"
      "  kerf mf --ratings train.mtx --rank 12 --lambda 0.01 --test test.mtx\n"
      "  kerf mf --ratings ratings.mtx --rank 40 --workers 4 --out model");
  run_when_chosen(*command, chosen, state);
}

}  // namespace kerf::apps
