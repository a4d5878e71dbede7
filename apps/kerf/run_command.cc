// kerf run: shipped programs that are not training, through the same loop.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "apps/kerf/commands.h"
#include "apps/kerf/crew_flags.h"
#include "apps/kerf/flag_values.h"
#include "apps/least_squares/least_squares.h"
#include "runtime/error.h"
#include "runtime/json.h"
#include "schedmp/scheduler.h"

namespace kerf::apps {

namespace {

// A worker answers a round with block x block numbers, in one message of at most 1 MiB.
constexpr int kMostBlock = 360;

struct LeastSquaresCommand {
  LeastSquaresOptions options;
  CrewFlags crew_flags;
  int workers = 2;
  bool json = false;

  int run() const;
};

int LeastSquaresCommand::run() const {
  const auto require = [](bool fine, const char* flag, auto value) {
    if (!fine) throw Error(ErrorCode::kUsage, format("{} is out of range", value), flag);
  };
  require(workers >= 1 && workers <= kMostWorkers, "--workers", workers);
  require(options.rows >= workers && options.rows <= 10'000'000, "--rows", options.rows);
  require(options.columns >= 1 && options.columns <= 100'000, "--columns", options.columns);
  require(options.block >= 1 && options.block <= std::min<int64_t>(options.columns, kMostBlock),
          "--block", options.block);
  require(options.sweeps >= 1, "--sweeps", options.sweeps);

  check_host_memory(
      crew_flags,
      static_cast<double>(options.rows) * static_cast<double>(options.columns) * sizeof(double),
      "use fewer --rows or --columns");

  LeastSquares program(options, workers);
  const Interrupts interrupts;
  const auto crew = assemble_crew(crew_flags, workers, interrupts);
  const schedmp::LoopReport loop = schedmp::run(program, *crew, {.depth = 1, .batch = 1});
  crew->stop();

  const double first = program.objectives().front();
  const double last = program.objectives().back();
  const Json report{{"rounds", loop.rounds},
                    {"tasks", loop.tasks},
                    {"seconds", loop.seconds},
                    {"converged", program.converged()},
                    {"objectives", program.objectives()},
                    {"solution", program.solution()}};
  const std::string text = json ? json_text(report, 2) + "\n"
                                : format("{} in {} over {}: objective {:.6g} -> {:.6g}, {}\n",
                                         plural(loop.rounds, "round"), human_seconds(loop.seconds),
                                         plural(workers, "worker"), first, last,
                                         program.converged() ? "converged" : "not yet converged");
  std::fputs(text.c_str(), stdout);
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
  command->add_option("--rows", state->options.rows, "Of the matrix")->capture_default_str();
  command->add_option("--columns", state->options.columns, "Of the matrix")->capture_default_str();
  command->add_option("--block", state->options.block, "Coordinates per round")
      ->capture_default_str();
  command->add_option("--sweeps", state->options.sweeps, "Over all coordinates, at most")
      ->capture_default_str();
  command->add_option("--seed", state->options.seed, "Of the matrix")
      ->check(whole_number<uint64_t>())
      ->capture_default_str();
  command->add_option("--workers", state->workers, "Rows are divided over them")
      ->capture_default_str();
  add_crew_flags(*command, state->crew_flags);
  command->add_flag("--json", state->json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  kerf run least-squares\n"
      "  kerf run least-squares --rows 20000 --columns 500 --block 50 --workers 4 --json");
  command->callback([&chosen, state] { chosen.run = [state] { return state->run(); }; });
}

}  // namespace kerf::apps
