// The command worker: joins a run, computes its part, and leaves.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "apps/main/command.h"
#include "apps/main/crew_flags.h"
#include "apps/main/device_list.h"
#include "apps/main/flag_values.h"
#include "runtime/keeper.h"
#include "runtime/process.h"
#include "schedmp/scheduler.h"

namespace kerf::apps {

namespace {

constexpr int kPatienceSeconds = 60;
constexpr int kMostPatienceSeconds = 24 * 3600;

struct WorkerCommand {
  runtime::WorkerOptions options;
  int patience = kPatienceSeconds;
  bool no_restart = false;
  const Chosen* process = nullptr;

  int run() const {
    require(!options.scheduler.empty(), "--connect", "a worker needs the scheduler's address");
    if (options.keeper == 0 && !no_restart)
      return runtime::keep_worker(process->argc, process->argv);
    runtime::set_process_title(process->argc, process->argv, runtime::program_name() + " worker");
    runtime::WorkerOptions mine = options;
    const std::vector<std::string> devices = device_list(options.device);
    require(devices.size() == 1 || options.index >= 0, "--device",
            format("a worker computes on one of {}; say which, or give --index",
                   fmt::join(devices, ", ")));
    mine.device = devices[static_cast<size_t>(std::max(options.index, 0)) % devices.size()];
    mine.join_timeout = std::chrono::seconds(patience);
    mine.waits = [] {
      std::fprintf(stderr, "%s worker: no place is free yet; waits for one\n",
                   runtime::program_name().c_str());
    };
    mine.again = [this] { runtime::begin_process_again(process->argc, process->argv); };
    return schedmp::serve(mine, process->programs);
  }
};

}  // namespace

void add_worker_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "worker",
      "Joins a run that another command began with --listen ADDRESS, and computes "
      "its part.");
  auto state = std::make_shared<WorkerCommand>();
  state->process = &chosen;
  command
      ->add_option("--connect", state->options.scheduler,
                   "The scheduler's address, tcp://HOST:PORT")
      ->type_name("ADDRESS");
  command
      ->add_option("--keys", state->options.keys,
                   "A folder with worker.secret and scheduler.public of the run's keys; needed "
                   "where the scheduler is on another host")
      ->type_name("DIR");
  command
      ->add_option(
          "--device", state->options.device,
          "What to compute on: cpu, cuda:N, or with --index a list of them with commas, of which "
          "the worker takes its own (default cpu)")
      ->type_name("DEVICE[,...]");
  command
      ->add_option("--index", state->options.index,
                   "Which worker to be (default: the next free one)")
      ->check(whole_number<int>(0, kMostWorkers - 1))
      ->type_name("N");
  command
      ->add_option("--patience", state->patience,
                   "How long to wait for a scheduler, at the beginning and when it is gone")
      ->check(whole_number<int>(1, kMostPatienceSeconds))
      ->type_name("SECONDS")
      ->capture_default_str();
  command->add_flag(
      "--no-restart", state->no_restart,
      "End when the worker is killed or loses its scheduler (default: a keeper stays, "
      "which starts another)");
  command->add_option(runtime::kKeeperFlag, state->options.keeper)->group("");  // of who starts it
  const std::string name = runtime::program_name();
  command->footer(format(
      "A run without --listen starts its own workers; this command is for starting them by "
      "hand,\non other hosts, for another device each, or under a debugger. Beyond this host "
      "the run and\nits workers need keys: docs/howto/run-on-many-hosts.md.\n\n"
      "Examples:\n"
      "  {0} COMMAND --workers 2 --listen tcp://127.0.0.1:5555 &\n"
      "  {0} worker --connect tcp://127.0.0.1:5555 &\n"
      "  {0} worker --connect tcp://127.0.0.1:5555 --index 1\n"
      "  {0} worker --connect tcp://10.0.0.1:5555 --keys keys",
      name));
  run_when_chosen(*command, chosen, state);
}

}  // namespace kerf::apps
