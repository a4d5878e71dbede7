// kerf run: shipped programs that are not training, through the same loop.
#include <algorithm>
#include <limits>
#include <memory>

#include "apps/kerf/commands.h"
#include "apps/kerf/run_flags.h"
#include "apps/least_squares/least_squares.h"
#include "apps/main/answer.h"
#include "apps/main/drive.h"
#include "apps/main/flag_values.h"
#include "apps/programs.h"
#include "runtime/control.h"

namespace kerf::apps {

namespace {

constexpr int64_t kMostRows = 10'000'000;
constexpr int64_t kMostColumns = 100'000;
constexpr int64_t kMostSweeps = std::numeric_limits<int>::max();

int64_t blocks_of(const LeastSquaresOptions& options) {
  return (options.columns + options.block - 1) / options.block;
}

// A bar on a terminal; elsewhere the answer is enough.
Progress::Options progress_of(const LeastSquaresOptions& options) {
  Progress::Options progress = progress_on_stderr();
  progress.total_steps = blocks_of(options) * options.sweeps;
  progress.epochs = options.sweeps;
  progress.words = {"sweep", "round", "objective", "rounds"};
  progress.epoch_lines = false;
  return progress;
}

struct LeastSquaresCommand {
  LeastSquaresOptions options;
  CrewFlags crew_flags;
  int workers = 2;
  bool json = false;

  int run() const;
};

int LeastSquaresCommand::run() const {
  const auto check = [](const char* flag, int64_t value, int64_t least, int64_t most) {
    require(value >= least && value <= most, flag,
            format("{} is not within {} and {}", value, least, most));
  };
  check("--rows", options.rows, workers, kMostRows);
  check("--block", options.block, 1, options.columns);
  require(options.block <= largest_block(), "--block",
          format("{} is more than {}, the largest that fits: a worker answers a round with block x "
                 "block numbers in one control message, of at most {} bytes",
                 options.block, largest_block(), runtime::kMaxControlMessage));

  const double bytes =
      static_cast<double>(options.rows) * static_cast<double>(options.columns) * sizeof(double);
  check_host_memory(crew_flags, std::vector(static_cast<size_t>(workers), bytes / workers),
                    "use fewer --rows or --columns");

  Progress progress(progress_of(options));
  LeastSquares program(options, workers, [&](int64_t round, double objective) {
    progress.step({round, round / blocks_of(options), 1, objective});
  });
  const schedmp::LoopReport loop =
      drive(program, crew_flags, {.workers = workers, .programs = program_factories()}, progress)
          .loop;
  answer_of_run(
      json, crew_flags.encrypt_data,
      [&] {
        return Json{{"rounds", loop.rounds},
                    {"tasks", loop.tasks},
                    {"seconds", loop.seconds},
                    {"converged", program.converged()},
                    {"objectives", program.objectives()},
                    {"solution", program.solution()}};
      },
      [&](bool) {
        return format(
            "{} in {} over {}: objective {:.6g} -> {:.6g}, {}\n", plural(loop.rounds, "round"),
            human_seconds(loop.seconds), plural(workers, "worker"), program.objectives().front(),
            program.objectives().back(), program.converged() ? "converged" : "not yet converged");
      });
  return 0;
}

}  // namespace

void add_run_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "run",
      "Runs a shipped program that is not training, through the same scheduler and workers.");
  auto state = std::make_shared<LeastSquaresCommand>();
  command->add_option("PROGRAM", "least-squares: parallel block coordinate descent")
      ->required()
      ->check(CLI::IsMember({"least-squares"}));
  command->add_option("--rows", state->options.rows, "Of the matrix")
      ->check(whole_number<int64_t>(1, kMostRows))
      ->capture_default_str();
  command->add_option("--columns", state->options.columns, "Of the matrix")
      ->check(whole_number<int64_t>(1, kMostColumns))
      ->capture_default_str();
  command
      ->add_option("--block", state->options.block,
                   format("Coordinates per round, {} at most", largest_block()))
      ->check(whole_number<int64_t>(1))
      ->capture_default_str();
  command->add_option("--sweeps", state->options.sweeps, "Over all coordinates, at most")
      ->check(whole_number<int64_t>(1, kMostSweeps))
      ->capture_default_str();
  add_seed_flag(*command, state->options.seed, "Of the matrix");
  command->add_option("--workers", state->workers, "Rows are divided over them")
      ->check(whole_number<int>(1, kMostWorkers))
      ->capture_default_str();
  add_crew_flags(*command, state->crew_flags);
  add_json_flag(*command, state->json);
  command->footer(
      "Examples:\n"
      "  kerf run least-squares\n"
      "  kerf run least-squares --rows 20000 --columns 500 --block 50 --workers 4 --json");
  run_when_chosen(*command, chosen, state);
}

}  // namespace kerf::apps
