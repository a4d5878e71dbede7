// kerf mf: a matrix of ratings as a product of two thin ones, by block rotation.
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "apps/data/matrix_file.h"
#include "apps/kerf/balance_flag.h"
#include "apps/kerf/commands.h"
#include "apps/main/flag_values.h"
#include "apps/main/program_command.h"
#include "apps/mf/mf.h"
#include "apps/mf/mf_model.h"

namespace kerf::apps {

namespace {

const std::map<std::string, MfAlgorithm> kAlgorithms = {{"sgd", MfAlgorithm::kSgd},
                                                        {"ccd", MfAlgorithm::kCcd}};

constexpr int kMostRank = 4096;
constexpr int kMostBlocksPerWorker = 64;

class MfCommand : public ProgramCommand {
 public:
  std::string name() const override { return "mf"; }
  std::string about() const override {
    return "Matrix factorisation: minimises the sum over ratings r of item i by user u of "
           "(r - m - p_u . q_i)^2 + lambda (|p_u|^2 + |q_i|^2), m the mean rating, over blocks of "
           "items that rotate.";
  }
  std::string divided() const override { return "Users"; }
  std::string examples() const override {
    return "Examples:\n"
           "  kerf mf --ratings train.mtx --rank 12 --lambda 0.01 --test test.mtx\n"
           "  kerf mf --ratings ratings.mtx --rank 40 --workers 4 --out model";
  }
  void add_flags(CLI::App& command) override;
  void run(ProgramRun& run) override;

 private:
  void add_fit_flags(CLI::App& command);
  void check_numbers() const;
  void check_files();
  Json told(Mf& program, int64_t rounds) const;

  MfOptions options_;
  std::string algorithm_ = "sgd";
  std::string out_;
  CLI::App* command_ = nullptr;
};

void MfCommand::check_numbers() const {
  const auto finite = [](double number, const char* flag, bool above) {
    require(std::isfinite(number) && (above ? number > 0 : number >= 0), flag,
            format("{} is not {}", number, above ? "above 0" : "0 or more"));
  };
  finite(options_.lambda, "--lambda", false);
  finite(options_.step, "--step", true);
  finite(options_.decay, "--decay", false);
  finite(options_.tolerance, "--tol", false);
  for (const char* flag : {"--step", "--decay"})
    require(algorithm_ == "sgd" || command_->get_option(flag)->count() == 0, flag,
            "it is of --algorithm sgd");
}

void MfCommand::check_files() {
  const MatrixSize ratings = matrix_size(options_.ratings);
  require(ratings.entries >= 1, options_.ratings, "it has no ratings");
  if (!options_.test.empty()) {
    const MatrixSize test = matrix_size(options_.test);
    require(test.rows == ratings.rows && test.columns == ratings.columns, options_.test,
            format("it is {} x {}; {} is {} x {}", test.rows, test.columns, options_.ratings,
                   ratings.rows, ratings.columns));
    require(test.entries >= 1, options_.test, "it has no ratings");
  }
  options_.users = ratings.rows;
  options_.items = ratings.columns;
}

void MfCommand::run(ProgramRun& run) {
  check_numbers();
  check_files();
  const int64_t most = std::min(options_.users, options_.items / options_.blocks_per_worker);
  const int workers =
      run.workers(most, format("{} users and {} items in {} a worker", options_.users,
                               options_.items, plural(options_.blocks_per_worker, "block")));
  make_folder_for(out_);
  options_.algorithm = kAlgorithms.at(algorithm_);
  options_.most_seconds = run.most_seconds();
  Mf program(options_, workers);
  const schedmp::LoopReport loop = run.drive(program, workers, program.history());
  if (!out_.empty())
    write_mf_model(
        out_, {program.mean(), options_.rank, options_.lambda, program.users(), program.items()});
  const HistoryPoint& last = program.points().back();
  const std::optional<double> test = last.values[Mf::kTestRmse];
  run.answer(program.history(), format("Matrix factorisation by {}", algorithm_),
             told(program, loop.rounds),
             format("{} in {} over {} ({:.3g} a second): objective {:.8g}, train RMSE {:.5f}{}{}",
                    plural(last.rounds, "iteration"), human_seconds(last.seconds),
                    plural(workers, "worker"), program.history().rounds_per_second(),
                    *last.values[Mf::kObjective], *last.values[Mf::kTrainRmse],
                    test ? format(", test RMSE {:.5f}", *test) : std::string(),
                    options_.balance ? divided_in_words("users", program.users_of_workers())
                                     : std::string()));
}

Json MfCommand::told(Mf& program, int64_t rounds) const {
  const HistoryPoint& last = program.points().back();
  const std::optional<double> test = last.values[Mf::kTestRmse];
  Json told{{"objective", *last.values[Mf::kObjective]},
            {"train_rmse", *last.values[Mf::kTrainRmse]},
            {"test_rmse", test ? Json(*test) : Json()},
            {"mean", program.mean()},
            {"ratings", program.ratings()},
            {"converged", program.converged()},
            {"iterations", last.rounds},
            {"iterations_per_second", program.history().rounds_per_second()},
            {"rounds", rounds},
            {"updates", last.updates},
            {"seconds", last.seconds}};
  if (options_.balance) told["users_of_workers"] = program.users_of_workers();
  return told;
}

void MfCommand::add_fit_flags(CLI::App& command) {
  command.add_option("--rank", options_.rank, "Numbers of a row of p and of q")
      ->check(whole_number<int>(1, kMostRank))
      ->capture_default_str();
  command
      .add_option("--lambda", options_.lambda,
                  "The weight of |p|^2 + |q|^2, for each rating, beside its squared error")
      ->capture_default_str();
  command
      .add_option("--step", options_.step,
                  "The step size of the first iteration, of ratings divided by their standard "
                  "deviation")
      ->capture_default_str();
  command
      .add_option("--decay", options_.decay,
                  "Iteration t, from 0, has steps of step / (1 + decay t^1.5)")
      ->capture_default_str();
  command.add_option("--iterations", options_.iterations, "Stop after so many, at the latest")
      ->check(whole_number<int64_t>(1))
      ->capture_default_str();
  command
      .add_option("--tol", options_.tolerance,
                  "Converged when an iteration makes the objective smaller by less than this part "
                  "of it; 0: never")
      ->capture_default_str();
}

void MfCommand::add_flags(CLI::App& command) {
  command_ = &command;
  command
      .add_option("--ratings", options_.ratings,
                  "Ratings: Matrix Market coordinates (.mtx), CSC (.npz), or a table (.csv) whose "
                  "zeros are not rated; users are rows, items columns")
      ->required()
      ->type_name("FILE");
  command.add_option("--test", options_.test, "Ratings of the same users and items, to test on")
      ->type_name("FILE");
  add_fit_flags(command);
  command
      .add_option("--algorithm", algorithm_,
                  "sgd: stochastic gradient descent. ccd: CCD++, the minimum along each number "
                  "of the rows in turn, without step sizes")
      ->check(CLI::IsMember(kAlgorithms))
      ->capture_default_str();
  command.add_option("--blocks", options_.blocks_per_worker, "Blocks of items for each worker")
      ->check(whole_number<int>(1, kMostBlocksPerWorker))
      ->capture_default_str();
  add_balance_flag(command, "users", options_.balance);
  add_seed_flag(command, options_.seed, "Of the first rows and of the order of ratings");
  command
      .add_option("--out", out_,
                  "A folder for users.mtx and items.mtx, a row each, and model.txt with the mean")
      ->type_name("FOLDER");
}

}  // namespace

void add_mf_command(CLI::App& app, Chosen& chosen) {
  add_program_command(std::make_shared<MfCommand>(), app, chosen);
}

}  // namespace kerf::apps
